import pytest
from hypothesis import given
from hypothesis.strategies import builds, integers, sampled_from

from dtsflow.memory.region import Region, channel_alignment, padded_channels, slot_bytes
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape

sides = integers(1, 300)
shapes = builds(Shape, sides, sides, sides, sides)
regions = sampled_from(Region)


@pytest.mark.parametrize(
    ("dtype", "region", "alignment"),
    [
        (DType.FP16, Region.I_A_DATA, 4),
        (DType.BF16, Region.I_B_DATA, 4),
        (DType.FP32, Region.I_A_DATA, 1),
        (DType.UINT8, Region.I_A_DATA, 1),
        (DType.FP16, Region.F_FEATURE_FP16, 8),
        (DType.BF16, Region.F_GRAD_SLOT_FP16, 8),
        (DType.FP16, Region.T_TEMP_FP16, 1),
        (DType.INT8, Region.S_MASK, 8),
        (DType.INT8, Region.I_A_DATA, 1),
        (DType.FP32, Region.F_FEATURE_FP32, 1),
    ],
)
def test_channels_are_aligned_where_kernels_want_it(
    dtype: DType, region: Region, alignment: int
) -> None:
    assert channel_alignment(dtype, region) == alignment
    assert padded_channels(3, dtype, region) == max(3, alignment)
    assert padded_channels(9, dtype, region) % alignment == 0


@pytest.mark.parametrize(
    ("dtype", "region", "sizes"),
    [  # of 1, 120, 121 and 241 elements
        (DType.INT8, Region.T_TEMP_INT8, (256, 256, 256, 512)),
        (DType.UINT8, Region.T_TEMP_INT8, (256, 256, 256, 512)),
        (DType.FP16, Region.T_TEMP_FP16, (256, 256, 512, 512)),
        (DType.BF16, Region.T_TEMP_FP16, (256, 256, 512, 512)),
        (DType.FP32, Region.T_TEMP_FP32, (512, 512, 1024, 1024)),
        (DType.INT32, Region.T_TEMP_INT32, (512, 512, 1024, 1024)),
        (DType.FP64, Region.I_A_DATA, (1024, 1024, 2048, 2048)),
        (DType.INT64, Region.I_A_DATA, (1024, 1024, 2048, 2048)),
    ],
)
def test_small_slots_have_the_documented_sizes(
    dtype: DType, region: Region, sizes: tuple[int, ...]
) -> None:
    counts = (1, 120, 121, 241)
    assert tuple(slot_bytes(Shape(n, 1, 1, 1), dtype, region) for n in counts) == sizes


@given(shapes, regions, sampled_from(DType))
def test_a_slot_is_aligned_and_holds_its_elements(
    shape: Shape, region: Region, dtype: DType
) -> None:
    size = slot_bytes(shape, dtype, region)
    assert size % 256 == 0
    assert size >= shape.numel * dtype.itemsize


@given(shapes)
def test_wider_types_take_exact_multiples_of_the_two_byte_slot(shape: Shape) -> None:
    half = slot_bytes(shape, DType.FP16, Region.G_DEEP_CONV_FP16)
    assert slot_bytes(shape, DType.FP32, Region.G_DEEP_CONV) == 2 * half
    assert slot_bytes(shape, DType.INT32, Region.T_TEMP_INT32) == 2 * half
    assert slot_bytes(shape, DType.FP64, Region.I_A_DATA) == 4 * half
    assert slot_bytes(shape, DType.INT64, Region.I_A_DATA) == 4 * half


def test_the_worked_example_of_an_imagenet_batch() -> None:
    images = Shape(256, 224, 224, 3)
    assert slot_bytes(Shape(256, 1, 1, 1), DType.INT32, Region.I_A_LABEL) == 1536
    assert slot_bytes(images, DType.FP32, Region.I_A_DATA) == 154_141_184
    assert slot_bytes(images, DType.FP16, Region.I_A_DATA) == 102_760_704
