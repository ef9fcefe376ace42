"""Reading whole blocks by number, with retries and checks; one reader a thread."""

import contextlib
import os
from collections.abc import Callable
from enum import Enum

import numpy as np
import numpy.typing as npt

from dtsflow.reader.patient_file import PatientFile
from dtsflow.volume.block import BlockIndex
from dtsflow.volume.exact_read import read_into
from dtsflow.volume.volume_set import VolumeSet


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
        self._file = PatientFile(retries, pause)

    @property
    def retried(self) -> int:
        """How often a read was tried again so far."""
        return self._file.retried

    def read(
        self, block: int, memory: npt.NDArray[np.uint8], stop: Callable[[], bool]
    ) -> BlockIndex | None:
        """Read block `block` and check it; None if `stop` said to leave it.

        Raises:
            VolumeError: It cannot be read.
            BlockError: It is damaged.
        """
        if not self._file.attempt(lambda: self._fill(block, memory, stop)):
            return None
        return checked_index(self._volumes, block, memory, self._verify)

    def close(self) -> None:
        """Close the file that was read last."""
        self._file.close()

    def _fill(self, block: int, memory: npt.NDArray[np.uint8], stop: Callable[[], bool]) -> bool:
        span = self._volumes.span(block)
        descriptor = self._file.descriptor(span.path)
        if hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError):  # only a hint: all pieces at once
                os.posix_fadvise(descriptor, span.offset, span.nbytes, os.POSIX_FADV_WILLNEED)
        return read_into(descriptor, memory, span.offset, span.path, stop=stop)


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
