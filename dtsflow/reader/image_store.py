"""The store of images that workers read themselves, from their own files."""

import threading
from collections.abc import Sequence

import numpy as np

from dtsflow.errors import ClosedError
from dtsflow.reader.block_reader import Verify
from dtsflow.reader.image_reader import ImageReader
from dtsflow.reader.order import EpochOrder, Ints, Rows
from dtsflow.reader.samples import Samples
from dtsflow.volume.raw_set import RawSet


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
        """How often a read was tried again so far."""
        return sum(reader.images.retried for reader in self._readers)

    def begin(self, epoch: EpochOrder, steps: range, timeout_s: float = 300.0) -> None:
        """Begin a pass; there is nothing to prepare."""

    def gather(self, rows: Rows) -> Samples:
        """The stored samples of `rows`, all valid, in memory of their own.

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
        """Nothing: whoever gathered them owns them."""

    def end(self) -> None:
        """End a pass; nobody waits in it."""

    def progress(self) -> str:
        """How far reading has come, for the message of a stalled run."""
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
        """The reader of the calling thread."""
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
    """The most bytes that `count` images of some sources take, of these sizes."""
    every = np.concatenate([np.empty(0, np.int64), *sizes])
    if may_repeat:
        return int(every.max(initial=0)) * count
    first = max(0, len(every) - count)
    return int(np.partition(every, first)[first:].sum()) if first else int(every.sum())
