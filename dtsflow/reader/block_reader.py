"""Reading whole blocks by number, with retries and checks; one reader a thread."""

import contextlib
import errno
import logging
import os
from collections.abc import Callable
from enum import Enum
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dtsflow.errors import VolumeError
from dtsflow.volume.block import BlockIndex
from dtsflow.volume.exact_read import open_descriptor, read_into
from dtsflow.volume.volume_set import VolumeSet

log = logging.getLogger(__name__)

_PASSING = {errno.EIO, errno.ESTALE, errno.EAGAIN, errno.ETIMEDOUT}  # of network shares
_FIRST_PAUSE_S = 0.1  # doubled with every retry


class Verify(Enum):
    """What is checked of the bytes that are read."""

    NONE = "none"
    BLOCK = "block"
    FILE = "file"


class BlockReader:
    """Reads blocks of a data set into memory of the caller; one descriptor at a time.

    Args:
        volumes: The data set.
        verify: Whether the bytes are checked against their checksum.
        retries: How often a read is tried again that failed as a share may for a while.
        pause: Waits so many seconds, or until the reading is to end; says which.
    """

    def __init__(
        self, volumes: VolumeSet, verify: Verify, retries: int, pause: Callable[[float], bool]
    ) -> None:
        self._volumes = volumes
        self._verify = verify
        self._retries = retries
        self._pause = pause
        self._path: Path | None = None
        self._descriptor = -1
        self.retried = 0

    def read(
        self, block: int, memory: npt.NDArray[np.uint8], stop: Callable[[], bool]
    ) -> BlockIndex | None:
        """Read block `block` and check it; None if `stop` said to leave it.

        Raises:
            VolumeError: It cannot be read.
            BlockError: It is damaged.
        """
        for attempt in range(self._retries + 1):
            try:
                if not self._fill(block, memory, stop):
                    return None
                break
            except VolumeError as error:
                self.close()
                if attempt == self._retries or not _may_pass(error):
                    raise
                self.retried += 1
                log.warning("%s Trying again, %d of %d.", error, attempt + 1, self._retries)
                if self._pause(_FIRST_PAUSE_S * 2**attempt):
                    return None
        return checked_index(self._volumes, block, memory, self._verify)

    def close(self) -> None:
        """Close the file that was read last."""
        if self._path is not None:
            self._path = None
            with contextlib.suppress(OSError):  # a share that is gone
                os.close(self._descriptor)

    def _fill(self, block: int, memory: npt.NDArray[np.uint8], stop: Callable[[], bool]) -> bool:
        span = self._volumes.span(block)
        if span.path != self._path:  # one descriptor, however many volumes there are
            self.close()
            self._descriptor = open_descriptor(span.path)
            self._path = span.path
        if hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError):  # only a hint: all pieces at once
                os.posix_fadvise(self._descriptor, span.offset, span.nbytes, os.POSIX_FADV_WILLNEED)
        return read_into(self._descriptor, memory, span.offset, span.path, stop=stop)


def checked_index(
    volumes: VolumeSet, block: int, memory: npt.NDArray[np.uint8], verify: Verify
) -> BlockIndex:
    """The samples of block `block`, whose bytes are in `memory`.

    Raises:
        BlockError: It is damaged.
    """
    if verify is not Verify.NONE:
        volumes.check_content(block, memory)
    return volumes.index(block, memory)


def _may_pass(error: VolumeError) -> bool:
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in _PASSING
