"""One open file at a time, and reads that are tried again; one a thread."""

import contextlib
import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

from dtsflow.errors import VolumeError
from dtsflow.volume.exact_read import open_descriptor

log = logging.getLogger(__name__)

_PASSING = {errno.EIO, errno.ESTALE, errno.EAGAIN, errno.ETIMEDOUT}  # of network shares
_FIRST_PAUSE_S = 0.1  # doubled with every retry


class PatientFile:
    """Keeps the file open that was read last, and is patient with network shares.

    Args:
        retries: How often a read is tried again that failed as a share may for a while.
        pause: Waits so many seconds, or until the reading is to end; says which.
    """

    def __init__(self, retries: int, pause: Callable[[float], bool]) -> None:
        self._retries = retries
        self._pause = pause
        self._path: Path | None = None
        self._descriptor = -1
        self.retried = 0

    def attempt(self, read: Callable[[], bool]) -> bool:
        """Try `read` until it ends well; False if it says so, or the pause was ended.

        Raises:
            VolumeError: It failed for good.
        """
        attempt = 0
        while True:
            try:
                return read()
            except VolumeError as error:
                self.close()
                if attempt == self._retries or not _may_pass(error):
                    raise
                self.retried += 1
                log.warning("%s Trying again, %d of %d.", error, attempt + 1, self._retries)
                if self._pause(_FIRST_PAUSE_S * 2**attempt):
                    return False
                attempt += 1

    def descriptor(self, path: Path) -> int:
        """A descriptor of `path`; that of another file is closed.

        Raises:
            VolumeError: It cannot be opened.
        """
        if path != self._path:
            self.close()
            self._descriptor = open_descriptor(path)
            self._path = path
        return self._descriptor

    def close(self) -> None:
        """Close the file that was read last."""
        if self._path is not None:
            self._path = None
            with contextlib.suppress(OSError):  # a share that is gone
                os.close(self._descriptor)


def _may_pass(error: VolumeError) -> bool:
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in _PASSING
