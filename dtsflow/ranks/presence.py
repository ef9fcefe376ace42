"""A sign that a process is alive: a lock that the system frees when it ends.

Unlike a heartbeat it needs no thread to run in time, so that a process which is busy,
as one that compiles, is not taken for dead.
"""

import errno
import importlib
import logging
from pathlib import Path
from typing import Any

from dtsflow.errors import RanksError

try:
    fcntl: Any = importlib.import_module("fcntl")
except ImportError:  # not on Windows, where whoever started the processes must notice
    fcntl = None

log = logging.getLogger(__name__)


class Presence:
    """Holds the lock of the file `path` until `leave`, or until the process ends.

    Within the process nothing else may open that file: closing it would free the lock.

    Raises:
        RanksError: Another living process holds it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("ab")
        try:
            if fcntl is not None:
                # Of the process: a child that was forked does not keep it.
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                self._file.close()
                raise RanksError(
                    f"{path} belongs to a living process: the run that the launcher's variables "
                    "name is still going on. End it first, or choose another name."
                ) from error
            log.warning("%s cannot be locked, so a rank that is killed is not noticed", path)

    def leave(self) -> None:
        """End the sign in good order; safe to call again."""
        if not self._file.closed:
            self._path.unlink(missing_ok=True)
            self._file.close()


def has_died(path: Path) -> bool:
    """Tell whether the process whose sign is at `path` ended without leaving."""
    if fcntl is None:
        return False
    try:
        with path.open("rb") as file:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return path.exists()  # it may have left since the file was opened
    except OSError:  # it is alive, or has left
        return False
