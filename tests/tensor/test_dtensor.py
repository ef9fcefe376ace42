from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import builds, integers

from dtsflow.memory.region import Region, slot_bytes
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape
from dtsflow.tensor.tensor import DTensor

small = integers(1, 9)
shapes = builds(Shape, small, small, small, small)


def tensor(shape: Shape, dtype: DType = DType.FP16, region: Region = Region.I_A_DATA) -> DTensor:
    return DTensor(0, "images", shape, dtype, region, slot_bytes(shape, dtype, region))


def test_a_half_precision_input_is_stored_with_four_channels() -> None:
    images = tensor(Shape(256, 224, 224, 3))
    assert images.padded_c == 4
    assert not images.is_compact
    assert images.nbytes == 256 * 224 * 224 * 3 * 2
    assert images.compact_strides == (224 * 224 * 3, 224 * 3, 3, 1)
    assert images.padded_strides == (224 * 224 * 4, 224 * 4, 4, 1)
    assert images.offset == -1


def test_a_compact_tensor_has_one_set_of_strides() -> None:
    images = tensor(Shape(2, 5, 7, 3), DType.FP32)
    assert images.is_compact
    assert images.compact_strides == images.padded_strides


def test_cudnn_sees_channels_second_with_stride_one() -> None:
    images = tensor(Shape(2, 5, 7, 3))
    assert images.cudnn_dims == (2, 3, 5, 7)
    assert images.cudnn_strides == (5 * 7 * 4, 1, 7 * 4, 4)


@given(shapes)
def test_compact_strides_are_those_of_a_numpy_array(shape: Shape) -> None:
    made = np.empty(tuple(shape), np.float32).strides
    compact = tensor(shape, DType.FP32).compact_strides
    # NumPy may report any stride for a side of length 1, so only the others count.
    for side, in_bytes, in_elements in zip(shape, made, compact, strict=True):
        assert side == 1 or in_bytes == 4 * in_elements


@pytest.mark.parametrize("dtype", DType)
@given(shapes)
def test_the_last_padded_element_lies_inside_the_slot(dtype: DType, shape: Shape) -> None:
    images = tensor(shape, dtype)
    last = sum((s - 1) * k for s, k in zip(shape, images.padded_strides, strict=True))
    assert (last + 1) * dtype.itemsize <= images.slot_bytes
    assert images.nbytes <= images.slot_bytes


@given(shapes)
def test_no_two_elements_share_a_place(shape: Shape) -> None:
    small_shape = Shape(*(min(side, 3) for side in shape))
    strides = tensor(small_shape).padded_strides
    places = [
        sum(i * k for i, k in zip(at, strides, strict=True))
        for at in product(*(range(side) for side in small_shape))
    ]
    assert len(set(places)) == small_shape.numel


def test_a_tensor_says_what_and_where_it_is() -> None:
    assert str(tensor(Shape(1, 2, 3, 4))) == "tensor 0 'images' FP16[1,2,3,4] in I_A_DATA"
