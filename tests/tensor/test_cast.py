import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers, lists, sampled_from

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.tensor import tensor as cast
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape
from dtsflow.tensor.tensor import cast_run, from_float32, to_float32

HALVES = [DType.FP16, DType.BF16]
ALL_BITS = np.arange(1 << 16, dtype=np.uint16)
LARGEST = {DType.FP16: 65504.0, DType.BF16: float.fromhex("0x1.fep127")}


@lru_cache
def values_of(dtype: DType) -> npt.NDArray[np.float64]:
    """Every number of a half type by its bits, from the definition of the format."""
    exponent_bits, fraction_bits = (5, 10) if dtype is DType.FP16 else (8, 7)
    bias = (1 << exponent_bits - 1) - 1
    bits = ALL_BITS.astype(np.int64)
    sign = 1 - 2 * (bits >> 15)
    exponent = bits >> fraction_bits & (1 << exponent_bits) - 1
    fraction = (bits & (1 << fraction_bits) - 1) / (1 << fraction_bits)
    value = np.where(
        exponent == 0,
        fraction * 2.0 ** (1 - bias),
        (1 + fraction) * 2.0 ** (exponent - bias).astype(np.float64),
    )
    top = (1 << exponent_bits) - 1
    value = np.where(exponent == top, np.where(fraction == 0, np.inf, np.nan), value)
    return np.asarray(sign * value)


def nearest_even(value: float, dtype: DType) -> float:
    """Round by comparing with the neighbours, in double precision."""
    every = values_of(dtype)
    finite = np.sort(every[np.isfinite(every)])
    place = int(np.searchsorted(finite, value))
    step = finite[-1] - finite[-2]
    below = finite[place - 1] if place else -finite[-1] - step
    above = finite[place] if place < len(finite) else finite[-1] + step
    if value == above or above - value < value - below:
        chosen = above
    elif value - below < above - value:
        chosen = below
    else:  # a tie: the one whose last bit is 0
        chosen = below if _is_even(float(below), dtype) else above
    return math.copysign(math.inf, chosen) if abs(chosen) > finite[-1] else float(chosen)


def _is_even(value: float, dtype: DType) -> bool:
    if abs(value) > LARGEST[dtype]:
        return True  # the first number past the largest one ends in zeros
    (found,) = np.flatnonzero(values_of(dtype) == value)[:1]
    return bool(found % 2 == 0)


@pytest.mark.parametrize("dtype", HALVES)
def test_every_half_number_has_its_exact_value_and_comes_back(dtype: DType) -> None:
    given = ALL_BITS.view(dtype.numpy)
    single = to_float32(given, dtype)
    assert np.array_equal(single, values_of(dtype).astype(np.float32), equal_nan=True)
    back = from_float32(single, dtype).view(np.uint16)
    number = ~np.isnan(single)
    assert np.array_equal(back[number], ALL_BITS[number])
    assert np.isnan(to_float32(back[~number].view(dtype.numpy), dtype)).all()


@pytest.mark.parametrize("dtype", HALVES)
@given(floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_number_is_rounded_to_the_nearest_and_ties_to_even(dtype: DType, value: float) -> None:
    single = np.array([value], np.float32)
    found = float(to_float32(from_float32(single, dtype), dtype)[0])
    assert found == nearest_even(float(single[0]), dtype)


@pytest.mark.parametrize("dtype", HALVES)
@given(integers(0, (1 << 15) - 1), sampled_from([-1, 1]))
def test_a_number_halfway_between_two_goes_to_the_even_one(
    dtype: DType, bits: int, sign: int
) -> None:
    below, above = values_of(dtype)[bits], values_of(dtype)[bits + 1]
    if np.isfinite(below) and np.isfinite(above):
        middle = np.float32(sign * (below + above) / 2)
        assert float(middle) == sign * (below + above) / 2  # it is a number of FP32
        found = from_float32(np.array([middle]), dtype).view(np.uint16)[0]
        assert found & 0x7FFF == bits + bits % 2


@pytest.mark.parametrize("dtype", HALVES)
def test_infinities_stay_overflow_becomes_one_and_no_nan_becomes_a_number(dtype: DType) -> None:
    bits = np.array([0x7F800001, 0x7F80FFFF, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF], np.uint32)
    given = np.concatenate([bits.view(np.float32), np.array([np.inf, -np.inf, 3.4e38, -0.0], "f4")])
    found = to_float32(from_float32(given, dtype), dtype)
    assert np.isnan(found[:5]).all()
    assert found[5:8].tolist() == [math.inf, -math.inf, math.inf]
    assert (found[8], math.copysign(1, found[8])) == (0.0, -1.0)


@given(lists(integers(1, 700), min_size=1, max_size=8), sampled_from(HALVES))
def test_a_run_of_weights_and_its_half_precision_twin_are_cast_in_one_call(
    sizes: list[int], half: DType
) -> None:
    plan = MemoryPlan()
    for number, size in enumerate(sizes):
        layer = ["FC_WEIGHT", "FIRST_CONV", "DEEP_CONV"][number % 3]
        shape = Shape(1, 1, 1, size)
        for name, dtype in ((f"W_{layer}", DType.FP32), (f"G_{layer}", DType.FP32)):
            plan.allocate(Region[name], shape, dtype)
        plan.allocate(Region[f"A_{layer}"], shape, half)
    plan.finalize()
    memory = np.zeros(plan.total_bytes, np.uint8)
    weights = [plan.region_tensors(Region[f"W_{layer}"]) for layer in LAYERS]
    copies = [plan.region_tensors(Region[f"A_{layer}"]) for layer in LAYERS]
    for tensor in (each for region in weights for each in region):
        slot = memory[tensor.offset :][: tensor.nbytes].view(np.float32)
        slot[:] = np.linspace(-3, 3, slot.size) * (tensor.id + 1)
    start, stop = plan.named_range("weights_decayed")
    first, last = plan.named_range("weights_half")
    count = cast_run(memory[start:stop], DType.FP32, memory[first:last], half)
    assert count == (stop - start) // 4 == (last - first) // 2
    for region, twins in zip(weights, copies, strict=True):
        for tensor, twin in zip(region, twins, strict=True):
            values = memory[tensor.offset :][: tensor.nbytes].view(np.float32)
            found = memory[twin.offset :][: twin.nbytes].view(half.numpy)
            assert np.array_equal(found, from_float32(values, half))


LAYERS = ["FC_WEIGHT", "FIRST_CONV", "DEEP_CONV"]


@pytest.mark.parametrize("source", sorted(cast.FLOATS, key=str), ids=str)
@pytest.mark.parametrize("target", sorted(cast.FLOATS, key=str), ids=str)
def test_a_run_longer_than_one_piece_is_cast_whole(
    source: DType, target: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cast, "_PIECE", 7)
    values = np.linspace(-9, 9, 40, dtype=np.float32)
    given = from_float32(values, source).copy()
    taken = np.zeros(40, target.numpy)
    assert cast_run(given.view(np.uint8), source, taken.view(np.uint8), target) == 40
    assert np.array_equal(taken, from_float32(to_float32(given, source), target))


def test_what_only_one_of_the_runs_has_is_left_alone() -> None:
    given, taken = np.ones(5, np.float32), np.zeros(8, np.float16)
    assert cast_run(given.view(np.uint8), DType.FP32, taken.view(np.uint8), DType.FP16) == 5
    assert taken.tolist() == [1, 1, 1, 1, 1, 0, 0, 0]
    assert cast_run(taken.view(np.uint8)[:7], DType.FP16, given.view(np.uint8), DType.FP32) == 3


def test_other_types_shapes_and_shared_memory_are_refused() -> None:
    run = np.zeros(64, np.uint8)
    other = run.copy()
    with pytest.raises(MemoryPlanError, match="INT32 was to be cast to FP16, and only FP32"):
        cast_run(run, DType.INT32, other, DType.FP16)
    with pytest.raises(MemoryPlanError, match=r"given as uint8\[32\]\. Give both as a compact row"):
        cast_run(run[::2], DType.FP32, other, DType.FP16)
    with pytest.raises(MemoryPlanError, match=r"given as float32\[16\]"):
        cast_run(run, DType.FP32, other.view(np.float32), DType.FP16)
    with pytest.raises(MemoryPlanError, match="in the same memory"):
        cast_run(run[:40], DType.FP32, run[36:], DType.FP16)
