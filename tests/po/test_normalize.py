import struct
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers
from pydantic import ValidationError

from dtsflow.errors import PlanError
from dtsflow.po import Normalize
from dtsflow.po.normalize import PRESETS
from dtsflow.po.operation import NOTHING
from dtsflow.spec import ImageSpec
from dtsflow.tensor.dtype import DType, to_bfloat16

ROW = np.zeros(1, NOTHING)[0]
RAMP = np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, axis=2)
FLOATS = [DType.FP32, DType.FP16, DType.BF16]


def normalized(op: Normalize, image: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    out = np.full(image.shape, 99, op.dtype.numpy)
    op.apply(image, out, ROW)
    return out


def fl32(value: float) -> float:
    """Round a double to single precision, by the C library."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def bf16(value: float) -> int:
    """The nearest bfloat16 by search: of its two neighbours, ties to the even one."""
    low = int.from_bytes(struct.pack("<f", value), "little") >> 16

    def exact(upper: int) -> Fraction:
        return Fraction(struct.unpack("<f", struct.pack("<I", upper << 16))[0])

    return min((low, low + 1), key=lambda b: (abs(exact(b) - Fraction(value)), b & 1))


def test_presets_are_the_published_numbers_of_red_green_and_blue() -> None:
    assert PRESETS["none"] == ((0.0,), (1.0,))
    assert PRESETS["mnist"] == ((0.1307,), (0.3081,))
    assert PRESETS["cifar"] == ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
    assert PRESETS["imagenet"] == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@pytest.mark.parametrize("preset", ["none", "cifar", "imagenet", "mlperf"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_each_result_is_the_formula_rounded_step_by_step(preset: str, dtype: DType) -> None:
    out = normalized(Normalize(preset=preset, dtype=dtype), RAMP)  # type: ignore[arg-type]
    mean, std = PRESETS[preset]
    for c in range(3):
        m, s = mean[c % len(mean)], std[c % len(std)]
        a, b = fl32(1.0 / (255.0 * s)), fl32(-m / s)
        for x in range(256):
            # A product of two singles is exact in double, and so rounds once.
            y = fl32(fl32(x * a) + b)
            got = out[x // 16, x % 16, c]
            if dtype is DType.FP32:
                assert got == np.float32(y)
            elif dtype is DType.FP16:
                assert got.tobytes() == struct.pack("<e", y)
            else:
                assert got == bf16(y)


@given(
    floats(
        width=32,
        allow_nan=False,
        allow_infinity=False,
        allow_subnormal=False,
        max_value=2.0**100,
        min_value=-(2.0**100),
    )
)
def test_bfloat16_rounds_to_nearest_even(value: float) -> None:
    assert to_bfloat16(np.array([value], np.float32))[0] == bf16(value)


def test_mnist_has_one_channel() -> None:
    out = normalized(Normalize(preset="mnist"), RAMP[..., :1])
    assert out[0, 0, 0] == pytest.approx(-0.1307 / 0.3081, rel=1e-6)
    assert out[-1, -1, 0] == pytest.approx((1 - 0.1307) / 0.3081, rel=1e-6)


def test_mlperf_subtracts_means_of_0_to_255() -> None:
    out = normalized(Normalize(preset="mlperf"), RAMP)
    assert out[0, 0].tolist() == pytest.approx([-123.68, -116.78, -103.94], rel=1e-6)


def test_none_is_0_to_1_for_any_number_of_channels() -> None:
    op = Normalize(preset="none")
    for channels in (1, 3, 4):
        assert op.out_spec(ImageSpec(8, 8, channels)).dtype is DType.FP32
    assert normalized(op, RAMP)[-1, -1].tolist() == pytest.approx([1, 1, 1], rel=1e-7)


def test_one_free_value_counts_for_every_channel() -> None:
    one = Normalize(mean=(0.5,), std=(0.25,))
    three = Normalize(mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    assert one.out_spec(ImageSpec(2, 2, 3)) == ImageSpec(2, 2, 3, DType.FP32)
    assert np.array_equal(normalized(one, RAMP), normalized(three, RAMP))


def test_uint8_keeps_the_pixels() -> None:
    op = Normalize(preset="none", dtype=DType.UINT8)
    assert op.out_spec(ImageSpec(2, 2, 3)) == ImageSpec(2, 2, 3)
    assert np.array_equal(normalized(op, RAMP), RAMP)
    assert np.array_equal(op.restore(RAMP), RAMP)


@pytest.mark.parametrize("preset", ["none", "cifar", "imagenet"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_restore_gives_the_pixels_back(preset: str, dtype: DType) -> None:
    op = Normalize(preset=preset, dtype=dtype)  # type: ignore[arg-type]
    restored = op.restore(normalized(op, RAMP))
    assert restored.dtype == np.uint8
    off = np.abs(restored.astype(int) - RAMP).max()
    assert off <= (1 if dtype is DType.BF16 else 0)


@given(integers(0, 255))
def test_padding_channels_of_a_strided_row_are_left_alone(shade: int) -> None:
    row = np.full((2, 2, 4), 7, np.float16)
    op = Normalize(preset="imagenet", dtype=DType.FP16)
    op.apply(np.full((2, 2, 3), shade, np.uint8), row[..., :3], ROW)
    assert (row[..., 3] == 7).all()
    assert np.array_equal(row[..., :3], normalized(op, np.full((2, 2, 3), shade, np.uint8)))


@pytest.mark.parametrize("name", ["FP32", "FP16", "BF16", "UINT8"])
def test_yaml_names_the_dtype(name: str) -> None:
    assert Normalize(preset="none", dtype=name).dtype is DType(name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either a preset, or mean and std together"),
        ({"preset": "none", "mean": [0], "std": [1]}, "either a preset, or mean and std"),
        ({"mean": [0]}, "mean and std together"),
        ({"std": [1]}, "mean and std together"),
        ({"mean": [0, 0], "std": [1]}, r"mean has 2 value\(s\) and std has 1"),
        ({"mean": [], "std": []}, "mean has 0"),
        ({"mean": [0], "std": [0]}, "std above zero"),
        ({"mean": [0], "std": [-1]}, "std above zero"),
        ({"mean": [float("nan")], "std": [1]}, "finite"),
        ({"preset": "imagenet", "dtype": "UINT8"}, "UINT8 keeps the pixels"),
        ({"mean": [0], "std": [1], "dtype": "UINT8"}, "UINT8 keeps the pixels"),
        ({"preset": "none", "dtype": "INT64"}, "Choose one of FP32, FP16, BF16, UINT8"),
        ({"preset": "imagnet"}, "imagenet"),
    ],
)
def test_contradictions_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Normalize(**options)


@pytest.mark.parametrize(
    ("op", "channels", "message"),
    [
        (Normalize(preset="mnist"), 3, r"preset mnist is for 1 channel\(s\) and the images have 3"),
        (Normalize(preset="imagenet"), 1, r"imagenet is for 3 channel\(s\) and the images have 1"),
        (Normalize(mean=(0, 0), std=(1, 1)), 3, r"mean and std is for 2 channel\(s\)"),
    ],
)
def test_another_number_of_channels_is_refused_with_both_numbers(
    op: Normalize, channels: int, message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        op.out_spec(ImageSpec(2, 2, channels))


@pytest.mark.parametrize("dtype", FLOATS)
def test_values_beyond_the_dtype_are_refused(dtype: DType) -> None:
    op = Normalize(mean=(0.0,), std=(1e-300,), dtype=dtype)
    with pytest.raises(PlanError, match=f"beyond the range of {dtype.value}"):
        op.out_spec(ImageSpec(2, 2, 3))
