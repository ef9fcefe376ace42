"""Copies of batches whose memory comes back when nobody refers to them any more.

Adapters can hand over batches of images only.
"""

import weakref
from collections import deque
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dtsflow.arena.batch import Batch
from dtsflow.errors import ConfigError
from dtsflow.memory.align import aligned_bytes

KEPT: Final = 3
"""Free copies that are kept: a loop holds one while the next one is made, and a wrapper
that looks ahead holds one more."""


class BufferPool:
    """Makes copies of arrays, in memory that is used again for others of their size.

    The first use of fresh memory costs a page fault every 4 KiB, which takes longer
    than the copying. Memory is lent until nothing refers to it, be it the copy, a view
    of it, or a tensor that shares it. Any thread may copy and let go.
    """

    def __init__(self) -> None:
        self._free: deque[npt.NDArray[np.uint8]] = deque(maxlen=KEPT)

    def copy(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Copy an array; the copy is contiguous and page-aligned."""
        memory = self._memory(array.nbytes)
        loan = _Loan(memory)
        weakref.finalize(loan, self._free.append, memory).atexit = False
        lent = np.asarray(loan).view(array.dtype).reshape(array.shape)
        _fill(lent, array)
        return lent

    def _memory(self, nbytes: int) -> npt.NDArray[np.uint8]:
        while self._free:
            try:
                memory = self._free.pop()
            except IndexError:  # another thread took the last one
                break
            if memory.nbytes == nbytes:
                return memory  # others are of batches of another resolution, and go
        return aligned_bytes(nbytes)


class _Loan:
    """The owner that every array in lent memory refers to.

    An array would not do: NumPy lets a view of a view refer to the first array alone.
    """

    def __init__(self, memory: npt.NDArray[np.uint8]) -> None:
        self.__array_interface__ = memory.__array_interface__


def _fill(out: npt.NDArray[Any], array: npt.NDArray[Any]) -> None:
    """Copy `array` into the contiguous `out`.

    Pixels that stand apart, for their padding is left out, go as one element each:
    NumPy is twice as fast with these as with their few channels one by one.
    """
    if array.strides[-1] == array.itemsize and not array.flags.c_contiguous:
        pixel = f"V{array.shape[-1] * array.itemsize}"
        array, out = array.view(pixel), out.view(pixel)
    out[...] = array


def expect_images(batch: Batch) -> None:
    """Refuse a batch of records.

    Raises:
        ConfigError: It has no images; says what to use instead.
    """
    if batch.images is None:
        raise ConfigError(
            f"this adapter hands over images, and the batches of {batch.phase} are records with "
            f"the fields {', '.join(batch.fields)}. Loop over run.epoch(…) and take the arrays "
            "from there: batch.NAME speaks DLPack."
        )
