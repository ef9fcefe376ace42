"""The store of images that workers read themselves, from their own files.

Images of a raw set are read one by one; each thread has a reader.
"""

import os
import threading
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from dtsflow.errors import ClosedError, VolumeError
from dtsflow.reader.block_io import PatientFile, Verify
from dtsflow.reader.order import EpochOrder, Ints, Rows
from dtsflow.reader.store import Samples
from dtsflow.volume.datasets.images import RawSet
from dtsflow.volume.format.io import crc32, read_into


class ImageReader:
    """Reads images into memory of the caller; one descriptor at a time.

    Args:
        images: The data set.
        verify: Whether bytes are compared with their checksum, where the set has one.
        retries: How often a read is tried again that failed as a share may for a while.
        pause: Waits so many seconds, or until the reading is to end; says which.
        first_id: The sample_id of the set's first image, in a mix of several.
    """

    def __init__(
        self,
        images: RawSet,
        verify: Verify,
        retries: int,
        pause: Callable[[float], bool],
        first_id: int = 0,
    ) -> None:
        self._images = images
        self._first_id = first_id
        arrangement = images.arrangement
        checks = verify is not Verify.NONE and arrangement is not None
        self._crcs = arrangement.crcs if checks and arrangement is not None else None
        self._file = PatientFile(retries, pause)

    @property
    def retried(self) -> int:
        """Return how often a read was tried again so far."""
        return self._file.retried

    def read(self, sample_id: int, memory: npt.NDArray[np.uint8], stop: Callable[[], bool]) -> bool:
        """Fill `memory` with the bytes of an image; False if `stop` asked to leave it.

        `sample_id` is its number in this set.

        Raises:
            VolumeError: The file is gone, is not the one that was listed, or cannot be
                read; names the sample and the file.
        """
        try:
            if not self._file.attempt(lambda: self._fill(sample_id, memory, stop)):
                return False
            self._check(sample_id, memory)
        except VolumeError as error:
            raise VolumeError(f"sample_id {self._first_id + sample_id}: {error}") from error
        return True

    def close(self) -> None:
        """Close the file that was read last."""
        self._file.close()

    def _fill(
        self, sample_id: int, memory: npt.NDArray[np.uint8], stop: Callable[[], bool]
    ) -> bool:
        runs = self._images.runs
        path, wanted = runs.path(sample_id), runs.file_bytes(sample_id)
        descriptor = self._file.descriptor(path)
        found = os.fstat(descriptor).st_size
        if found != wanted:
            raise VolumeError(
                f"{path} has {found} bytes, it had {wanted} when it was listed. Something writes "
                "to the source: let it end, then start again."
            )
        return read_into(descriptor, memory, int(runs.offsets[sample_id]), path, stop=stop)

    def _check(self, sample_id: int, memory: npt.NDArray[np.uint8]) -> None:
        if self._crcs is None:
            return
        found, wanted = crc32(memory.data), int(self._crcs[sample_id])
        if found != wanted:
            raise VolumeError(
                f"{self._images.where(sample_id)} has the CRC-32 {found:#010x}, it had "
                f"{wanted:#010x} when it was packed. Put the file back, or pack the folder as it "
                "is now."
            )


class SingleImages:
    """Reads images as substitutes, one at a time; the threads of a run share it."""

    def __init__(self, images: RawSet, first_id: int = 0) -> None:
        self._images = images
        self._first_id = first_id  # as of ImageReader

    def trust(self, block: int) -> None:
        """Do nothing: each image is read for itself."""

    def read(self, block: int, place: int, *, stop: Callable[[], bool]) -> Samples:
        """Return the sample `place` of `block`, in memory of its own.

        Raises:
            VolumeError: It cannot be read.
            ClosedError: `stop` asked for it.
        """
        sample_id = int(self._images.first_ids[block]) + place
        size = int(self._images.runs.sizes[sample_id])
        memory = np.empty(size, np.uint8)
        first_id = self._first_id
        reader = ImageReader(self._images, Verify.BLOCK, 0, lambda _seconds: stop(), first_id)
        try:
            if not reader.read(sample_id, memory, stop):
                raise ClosedError("The pass ended while a substitute was read.")
        finally:
            reader.close()
        return Samples(
            memory,
            offsets=np.zeros(1, np.int64),
            sizes=np.array([size], np.int64),
            labels=self._images.labels[sample_id : sample_id + 1],
            ids=np.array([sample_id], np.int64),
        )


class ImageStore:
    """Reads images when a worker asks for them; satisfies Store.

    It is for images whose rows lie among those of other sources. A batch is filled
    while another one is in use, which is all the read-ahead there is.

    Args:
        images: The data set.
        verify: Whether bytes are compared with their checksum, where the set has one.
        retries: How often a read is tried again.
        first_id: The sample_id of the first image among those of all sources.
    """

    threads: Sequence[threading.Thread] = ()

    def __init__(self, images: RawSet, verify: Verify, retries: int, first_id: int) -> None:
        self._images = images
        self._how = verify, retries
        self._first_id = first_id
        self._ending = threading.Event()
        self._own = threading.local()
        self._readers: list[_Reader] = []
        self._lock = threading.Lock()

    @property
    def retries(self) -> int:
        """Return how often a read was tried again so far."""
        return sum(reader.images.retried for reader in self._readers)

    def begin(self, epoch: EpochOrder, steps: range, timeout_s: float = 300.0) -> None:
        """Begin a pass; there is nothing to prepare."""

    def gather(self, rows: Rows) -> Samples:
        """Return the stored samples of `rows`, all valid, in memory of their own.

        Raises:
            VolumeError: An image could not be read.
            ClosedError: The store was closed meanwhile.
        """
        sizes = self._images.runs.sizes[rows.ids]
        offsets = np.cumsum(sizes) - sizes
        memory = np.empty(max(1, int(sizes.sum())), np.uint8)
        reader = self._reader()
        with reader.lock:
            for place, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
                into = memory[offset : offset + size]
                if not reader.images.read(int(rows.ids[place]), into, self._ending.is_set):
                    raise ClosedError("The run was closed while a worker read an image.")
        return Samples(memory, offsets, sizes, self._images.labels[rows.ids], rows.ids)

    def release(self, rows: Rows) -> None:
        """Do nothing: whoever gathered the images owns them."""

    def end(self) -> None:
        """End a pass; nobody waits in it."""

    def progress(self) -> str:
        """Return how far reading has come, for the message of a stalled run."""
        return "workers read images themselves"

    def close(self, *, wait: bool = True) -> None:
        """Close all files; with `wait`, as soon as nobody reads them."""
        self._ending.set()
        with self._lock:
            readers = list(self._readers)
        for reader in readers:
            if reader.lock.acquire(blocking=wait):
                try:
                    reader.images.close()
                finally:
                    reader.lock.release()

    def _reader(self) -> "_Reader":
        """Return the reader of the calling thread."""
        if not hasattr(self._own, "reader"):
            with self._lock:
                if self._ending.is_set():
                    raise ClosedError("The run was closed while a worker read an image.")
                images = ImageReader(self._images, *self._how, self._ending.wait, self._first_id)
                self._own.reader = _Reader(images)
                self._readers.append(self._own.reader)
        found: _Reader = self._own.reader
        return found


class _Reader:
    """The reader of one thread, which another thread may close."""

    def __init__(self, images: ImageReader) -> None:
        self.images = images
        self.lock = threading.Lock()


def images_in_hand(sizes: Sequence[Ints], count: int, *, may_repeat: bool) -> int:
    """Return the most bytes that `count` images of these sizes take."""
    every = np.concatenate([np.empty(0, np.int64), *sizes])
    if may_repeat:
        return int(every.max(initial=0)) * count
    first = max(0, len(every) - count)
    return int(np.partition(every, first)[first:].sum()) if first else int(every.sum())
