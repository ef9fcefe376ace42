"""How the failure of one rank ends the others."""

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from dtsflow.errors import CommonError, DtsflowError
from dtsflow.ranks.group import Group

log = logging.getLogger(__name__)


@contextmanager
def ending_all(group: Group) -> Iterator[None]:
    """End all ranks when the body of this `with` raises on one of them.

    An error that all ranks raise together ends them anyway, so this rank only leaves
    the group. It also only leaves when the body asks to exit without a failure. A rank
    that is alone raises its error as usual.
    """
    try:
        yield
    except CommonError:
        group.close()
        raise
    except BaseException as error:
        if is_failure(error, group):
            group.abort(reason_of(error))
        group.close()
        raise


def is_failure(error: BaseException, group: Group) -> bool:
    """Tell whether `error` on this rank is to end other ranks, too."""
    return not group.is_alone and not (
        isinstance(error, GeneratorExit)
        or (isinstance(error, SystemExit) and error.code in (None, 0))
    )


def tell(rank: int, size: int, reason: str) -> None:
    """Report why all ranks end, before this process ends at once.

    The report goes to the log, and to stderr if the program has not set up a log.
    """
    log.critical("rank %d of %d: %s", rank, size, reason)
    if not logging.getLogger().handlers:
        sys.stderr.write(f"rank {rank} of {size}: {reason}\n")
    sys.stdout.flush()
    sys.stderr.flush()


def reason_of(error: BaseException) -> str:
    """Return the message of an error of ours, else the traceback, its only witness."""
    if isinstance(error, DtsflowError):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return "".join(traceback.format_exception(error)).rstrip()
