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

    What all raise together ends them anyway, so then this rank only leaves; so it does
    when the body asks to exit without a failure. A rank that is alone raises on.
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
    """Say why all ranks end, before the process ends without a chance to.

    It goes to the log, and to stderr where the program has set up no log of its own.
    """
    log.critical("rank %d of %d: %s", rank, size, reason)
    if not logging.getLogger().handlers:
        sys.stderr.write(f"rank {rank} of {size}: {reason}\n")
    sys.stdout.flush()
    sys.stderr.flush()


def reason_of(error: BaseException) -> str:
    """The message of an error of ours, else the traceback: it has no other witness."""
    if isinstance(error, DtsflowError):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return "".join(traceback.format_exception(error)).rstrip()
