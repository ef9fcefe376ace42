import pytest
from hypothesis import given
from hypothesis.strategies import integers, sampled_from

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.align import ALIGN, align256, aligned_bytes


@given(integers(0, 1 << 50))
def test_rounding_up_reaches_the_next_multiple_and_no_further(n: int) -> None:
    assert align256(n) % ALIGN == 0
    assert n <= align256(n) < n + ALIGN


@given(integers(1, 20_000), sampled_from([1, 64, 256, 4096, 1 << 16]))
def test_memory_starts_at_a_multiple_of_the_alignment(nbytes: int, alignment: int) -> None:
    made = aligned_bytes(nbytes, alignment)
    assert made.nbytes == nbytes
    assert made.ctypes.data % alignment == 0
    assert made.flags.c_contiguous
    assert made.flags.writeable
    assert not made.any()


def test_no_memory_at_all_is_an_empty_array() -> None:
    assert aligned_bytes(0).shape == (0,)


def test_memory_starts_at_a_page_unless_told_otherwise() -> None:
    assert aligned_bytes(10).ctypes.data % 4096 == 0


@pytest.mark.parametrize(("nbytes", "alignment"), [(-1, 256), (10, 0), (10, 96), (10, -4)])
def test_sizes_and_alignments_that_make_no_sense_are_refused(nbytes: int, alignment: int) -> None:
    with pytest.raises(MemoryPlanError, match=f"{nbytes} bytes aligned to {alignment}"):
        aligned_bytes(nbytes, alignment)
