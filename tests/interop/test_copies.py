import gc
from typing import Any

import numpy as np
import pytest

from dtsflow.interop.copies import KEPT, BufferPool

PADDED = np.arange(2 * 3 * 5 * 4, dtype=np.float16).reshape(2, 3, 5, 4)


@pytest.mark.parametrize(
    "array",
    [PADDED, PADDED[..., :3], PADDED[..., :1], PADDED[..., :3].transpose(0, 3, 1, 2)],
    ids=["whole", "padded", "gray", "turned"],
)
def test_a_copy_is_contiguous_and_equal(array: Any) -> None:
    copy = BufferPool().copy(array)
    assert copy.dtype == array.dtype
    assert copy.flags.c_contiguous
    assert copy.ctypes.data % 64 == 0
    assert np.array_equal(copy, array)
    assert not np.shares_memory(copy, array)


def test_memory_is_lent_again_when_the_last_view_is_gone() -> None:
    lender = BufferPool()
    first = lender.copy(PADDED)
    place = first.ctypes.data
    part = first[1, :, ::2]
    del first
    other = lender.copy(PADDED + 1)
    assert other.ctypes.data != place
    assert np.array_equal(part, PADDED[1, :, ::2])
    del part
    gc.collect()
    assert lender.copy(PADDED).ctypes.data == place


def test_few_free_copies_are_kept() -> None:
    lender = BufferPool()
    copies = [lender.copy(PADDED) for _ in range(KEPT + 4)]
    assert len({copy.ctypes.data for copy in copies}) == KEPT + 4
    copies.clear()
    assert len(lender._free) == KEPT


def test_a_copy_outlives_its_lender() -> None:
    copy = BufferPool().copy(PADDED)
    gc.collect()
    assert np.array_equal(copy, PADDED)


def test_memory_of_another_size_is_not_lent() -> None:
    lender = BufferPool()
    small = lender.copy(PADDED[:1])
    del small
    gc.collect()
    assert np.array_equal(lender.copy(PADDED), PADDED)
    assert np.array_equal(lender.copy(PADDED[:1]), PADDED[:1])
