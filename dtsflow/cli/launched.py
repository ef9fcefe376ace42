"""A command that a launcher may have started several times."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dtsflow._version import __version__
from dtsflow.ranks.collective import agree
from dtsflow.ranks.config import Auto
from dtsflow.ranks.failure import ending_all
from dtsflow.ranks.group import Group
from dtsflow.ranks.launcher import launched_size


@contextmanager
def launched(place: Callable[[], Path]) -> Iterator[Group]:
    """Yield the ranks that do a command together, while a `with` lasts.

    Without others, this rank alone.

    `place` is a path that all see, beside which they may meet; it is only asked for if
    there are several. What ends one of them ends all. Only rank 0 warns.
    """
    is_one = launched_size(os.environ) is None
    group = Auto().join(None if is_one else place())
    if group.rank.index:
        logging.getLogger("dtsflow.volume").setLevel(logging.ERROR)
    with ending_all(group):
        agree(group, {"library": __version__})
        yield group
    group.close()
