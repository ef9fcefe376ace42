"""Reading whole blocks by number, with retries and checks; one reader a thread.

A reader has one open file at a time, and tries failed reads again. Whole volumes are
checked against the checksum in their header before they are used.
"""

import contextlib
import errno
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from itertools import groupby
from pathlib import Path
from threading import local

import numpy as np
import numpy.typing as npt

from dtsflow.errors import BlockError, VolumeError
from dtsflow.memory.align import aligned_bytes
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.block import BlockIndex
from dtsflow.volume.format.file import VolumeFile
from dtsflow.volume.format.header import BLOCK_BYTES
from dtsflow.volume.format.io import combine_blocks, crc32, open_descriptor, opened, read_into

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
        """Return a descriptor of `path`.

        The file that was open before is closed.

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


class Verify(Enum):
    """The checks that are made of the bytes that are read."""

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
        """Return how often a read was tried again so far."""
        return self._file.retried

    def read(
        self, block: int, memory: npt.NDArray[np.uint8], stop: Callable[[], bool]
    ) -> BlockIndex | None:
        """Read block `block` and check it; None if `stop` asked to leave it.

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
    """Return the samples of block `block`, whose bytes are in `memory`.

    Raises:
        BlockError: It is damaged.
    """
    if verify is not Verify.NONE:
        volumes.check_content(block, memory)
    return volumes.index(block, memory)


def check_whole_files(volumes: VolumeSet, io_threads: int, part: slice = slice(None)) -> None:
    """Compare each file's bytes with the CRC-32 that its header has of all of them.

    With `part`, only the files of that slice of them.

    A file with an extension index is not read for it: the index has the CRC-32 of each
    block, and each is checked when it is read. A pixel set is checked as it is read.

    Raises:
        BlockError: They differ; names the file.
        VolumeError: A file cannot be read.
    """
    if volumes.layout == "pixels":
        return
    files = list({file.path: file for file in volumes.files}.values())[part]  # a mix repeats some
    with ThreadPoolExecutor(io_threads) as pool:
        unindexed = [file for file in files if file.extension is None]
        places = [(file, block) for file in unindexed for block in range(len(file.counts))]
        read = zip(places, pool.map(_Crc(), places), strict=True)
        crcs = {
            path: [crc for _, crc in group]
            for path, group in groupby(read, key=lambda one: one[0][0].path)
        }
    for file in files:
        found = crcs.get(file.path, [])
        if file.extension is not None:
            found = file.extension.block_crcs.tolist()
        _compare(file, combine_blocks(found, BLOCK_BYTES))


def _compare(file: VolumeFile, found: int) -> None:
    if found != file.header.crc_code:
        raise BlockError(
            f"{file.path} is damaged: its blocks have the CRC-32 {found:#010x} together, its "
            f"header says {file.header.crc_code:#010x}. `dtsflow verify` tells more; copy it again."
        )


class _Crc:
    """The CRC-32 of a block of a file; each thread reads into a block of its own."""

    def __init__(self) -> None:
        self._own = local()

    def __call__(self, place: tuple[VolumeFile, int]) -> int:
        file, block = place
        if not hasattr(self._own, "memory"):
            self._own.memory = aligned_bytes(BLOCK_BYTES)
        with opened(file.path) as descriptor:
            read_into(descriptor, self._own.memory, (1 + block) * BLOCK_BYTES, file.path)
        return crc32(self._own.memory.data)
