"""Rows mixed in place by the compiled core, against those that NumPy makes."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dtsflow.native.core import load
from dtsflow.po import CutMix, Mixup
from dtsflow.po.mixup import MIX, mix_labels, mixed_labels, pair
from dtsflow.po.operation import Params
from dtsflow.tensor.dtype import DType, to_bfloat16

found = load()
if found is None:
    pytest.skip("the native core was not built", allow_module_level=True)
core: ModuleType = found

DTYPES = (DType.FP32, DType.FP16, DType.BF16, DType.UINT8)
SHARES = st.floats(0, 1, width=32) | st.sampled_from([0.0, 1.0, 0.5, 2.0**-24])


LEVELS = [level for level in ("portable", "avx2") if core.force_cpu_level(level)]


@pytest.fixture(scope="module", params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    assert core.force_cpu_level(request.param)
    yield request.param
    core.force_cpu_level(LEVELS[-1])


def images(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> npt.NDArray[Any]:
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    if dtype is DType.BF16:
        return to_bfloat16(values)
    if dtype is DType.UINT8:
        return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    return values.astype(dtype.numpy)


def row(share: float, window: tuple[int, int, int, int] = (0, 0, 0, 0)) -> Params:
    return np.array([(share, 0, *window)], MIX)


def check(
    operation: Mixup | CutMix,
    rows: npt.NDArray[Any],
    params: Params,
    partners: npt.NDArray[np.int64],
    dtype: DType,
) -> None:
    wanted = operation.apply(rows, params[0], partners, dtype=dtype)
    operation.mix(core, rows, params[0], partners, dtype=dtype)
    assert rows.tobytes() == wanted.tobytes()


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None, max_examples=60)
@given(
    share=SHARES,
    valid=st.lists(st.booleans(), min_size=1, max_size=9),
    shift=st.integers(0, 2**32 - 1),
    sides=st.tuples(st.integers(1, 9), st.integers(1, 40), st.integers(1, 8)),
    seed=st.integers(0, 99),
)
@example(share=0.3, valid=[True] * 3, shift=0, sides=(61, 99, 3), seed=0)  # more than a tile
def test_a_blend_is_numpys(
    dtype: DType,
    share: float,
    valid: list[bool],
    shift: int,
    sides: tuple[int, int, int],
    seed: int,
) -> None:
    rows = images(dtype, (len(valid), *sides), seed)
    check(Mixup(), rows, row(share), pair(np.array(valid), shift), dtype)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None, max_examples=60)
@given(
    count=st.integers(1, 7),
    shift=st.integers(0, 2**32 - 1),
    sides=st.tuples(st.integers(1, 20), st.integers(1, 40), st.integers(1, 5)),
    data=st.data(),
)
def test_a_window_is_pasted_as_numpy_does(
    dtype: DType, count: int, shift: int, sides: tuple[int, int, int], data: st.DataObject
) -> None:
    height, width, _ = sides
    y, x = data.draw(st.integers(0, height)), data.draw(st.integers(0, width))
    window = (y, x, data.draw(st.integers(0, height - y)), data.draw(st.integers(0, width - x)))
    rows = images(dtype, (count, *sides))
    check(CutMix(), rows, row(0.5, window), pair(np.ones(count, bool), shift), dtype)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("share", [1.0, 0.7312, 0.25, 1e-3])
def test_every_half_is_mixed_as_numpy_does(share: float) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)]
    order = np.random.default_rng(1).permutation(len(halves))
    rows = np.stack([halves, halves[order], halves[::-1]]).reshape(3, -1, 1, 1)
    check(Mixup(), rows, row(share), np.array([2, 0, 1]), DType.FP16)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("dtype", DTYPES)
def test_rings_of_several_lengths_and_rows_alone_are_mixed_at_once(dtype: DType) -> None:
    partners = np.array([3, 1, 5, 4, 0, 2, 6])
    check(Mixup(), images(dtype, (7, 5, 7, 3)), row(0.4), partners, dtype)


@pytest.mark.usefixtures("level")
def test_labels_are_mixed_as_numpy_does() -> None:
    soft = np.random.default_rng(0).random((5, 1001), np.float32)
    partners = pair(np.array([True, True, False, True, True]), 1 << 31)
    wanted = mixed_labels(soft, row(0.3)[0], partners)
    mix_labels(core, soft, row(0.3)[0], partners)
    assert soft.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("partners", [[1, 1], [0, 2], [-1, 0], [0, 0]])
def test_partners_that_are_not_each_row_once_are_refused(partners: list[int]) -> None:
    rows = np.zeros(8, np.uint8)
    with pytest.raises(ValueError, match="partner of one row"):
        core.mix_rows(rows, 0, np.array(partners), 0.5)
    with pytest.raises(ValueError, match="partner of one row"):
        core.paste_rows(rows, np.array(partners), (0, 1, 1, 1))


@pytest.mark.parametrize(
    "window",
    [(-1, 1, 1, 2), (3, 2, 1, 2), (0, 2, 3, 2), (0, 3, 1, 2), (0, -1, 1, 2), (0, 1, -1, 2),
     (0, 1, 2, 1 << 62), (1, 2, 2, 2), (5, 0, 1, 2)],
)  # fmt: skip
def test_a_window_outside_its_row_is_refused(window: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="outside its row"):
        core.paste_rows(np.zeros(8, np.uint8), np.array([1, 0]), window)


@pytest.mark.parametrize(
    ("nbytes", "cast", "count", "message"),
    [(8, 9, 2, "unknown cast"), (8, 0, 3, "one size"), (6, 1, 2, "whole elements"),
     (8, 0, 0, "one size")],
)  # fmt: skip
def test_what_are_no_rows_is_refused(nbytes: int, cast: int, count: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        core.mix_rows(np.zeros(nbytes, np.uint8), cast, np.arange(count), 0.5)
