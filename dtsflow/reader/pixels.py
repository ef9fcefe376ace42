"""The store of a raw pixel set: all of it is in memory from the start."""

import threading
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from dtsflow.reader.order import EpochOrder, Rows
from dtsflow.reader.store import Samples
from dtsflow.volume.datasets.pixels import RawPixels


def pixel_store_bytes(pixels: RawPixels) -> int:
    """Return the bytes that the set occupies during a run.

    It is there twice while it is read.
    """
    return 2 * pixels.nbytes


class PixelStore:
    """MNIST or CIFAR files in memory; satisfies Store.

    Raises:
        VolumeError: The files are not those that were planned, or cannot be read.
    """

    threads: Sequence[threading.Thread] = ()
    retries = 0

    def __init__(self, pixels: RawPixels) -> None:
        self._labels = pixels.known_labels
        rows = pixels.load().pixels
        self._memory = np.ascontiguousarray(rows).reshape(-1)
        self._sample_bytes = rows.shape[1]

    def begin(self, epoch: EpochOrder, steps: range, timeout_s: float = 300.0) -> None:
        """Begin a pass; there is nothing to prepare."""

    def gather(self, rows: Rows) -> Samples:
        """Return the stored samples of `rows`, all valid."""
        return Samples(
            self._memory,
            offsets=rows.ids * self._sample_bytes,
            sizes=np.full(len(rows), self._sample_bytes, np.int64),
            labels=self._labels[rows.ids],
            ids=rows.ids,
        )

    def release(self, rows: Rows) -> None:
        """Do nothing: all stays where it is."""

    def end(self) -> None:
        """End a pass; nobody waits in it."""

    def progress(self) -> str:
        """Return how far reading has come, for the message of a stalled run."""
        return "all samples are in memory"

    def close(self, *, wait: bool = True) -> None:
        """Do nothing: there are no threads."""


class SinglePixels:
    """Reads samples as substitutes; from the first one on all are in memory."""

    def __init__(self, pixels: RawPixels) -> None:
        self._pixels = pixels
        self._lock = threading.Lock()
        self._loaded: npt.NDArray[np.uint8] | None = None

    def trust(self, block: int) -> None:
        """Do nothing: the set is compared with its digest when it is read."""

    def read(self, block: int, place: int, *, stop: Callable[[], bool]) -> Samples:  # noqa: ARG002  # there is one block, and nothing to wait for
        """Return the sample `place`.

        Raises:
            VolumeError: The files are not those that were planned, or cannot be read.
        """
        with self._lock:
            if self._loaded is None:
                self._loaded = self._pixels.load().pixels
        sample = np.ascontiguousarray(self._loaded[place]).reshape(-1)
        return Samples(
            sample,
            offsets=np.zeros(1, np.int64),
            sizes=np.array([len(sample)], np.int64),
            labels=self._pixels.known_labels[place : place + 1],
            ids=np.array([place], np.int64),
        )
