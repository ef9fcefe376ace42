import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import integers, tuples

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.region import Region, slot_bytes
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape
from dtsflow.tensor.tensor import DTensor, change_layout

side = integers(1, 6)


def numbers(dtype: DType, *sides: int) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """Distinct bytes, none of them zero, whatever they mean in `dtype`."""
    count = int(np.prod(sides)) * dtype.itemsize
    return (np.arange(count) % 255 + 1).astype(np.uint8).view(dtype.numpy).reshape(sides)


@pytest.mark.parametrize("dtype", DType)
@given(tuples(side, side, side, side), side, side)
def test_padding_is_zero_and_making_compact_undoes_it(
    dtype: DType, sides: tuple[int, int, int, int], extra: int, spare: int
) -> None:
    n, h, w, c = sides
    compact = numbers(dtype, n, h, w, c)
    padded = numbers(dtype, n, h, w, c + extra)
    change_layout(compact, padded, c)
    assert padded[..., :c].tobytes() == compact.tobytes()
    assert not padded[..., c:].view(np.uint8).any()
    wider = numbers(dtype, n, h, w, c + spare)
    change_layout(padded, wider, c)
    again = numbers(dtype, n, h, w, c)
    again.fill(0)
    change_layout(wider, again, c)
    assert again.tobytes() == compact.tobytes()


def test_what_pads_a_source_is_never_read() -> None:
    source = numbers(DType.INT32, 1, 2, 2, 4)
    target = numbers(DType.INT32, 1, 2, 2, 8)
    change_layout(source, target, 3)
    assert np.array_equal(target[..., :3], source[..., :3])
    assert not target[..., 3:].any()


def test_a_slot_takes_an_image_at_the_strides_that_its_descriptor_tells() -> None:
    shape = Shape(2, 3, 5, 3)
    size = slot_bytes(shape, DType.FP16, Region.I_A_DATA)
    images = DTensor(0, "images", shape, DType.FP16, Region.I_A_DATA, size, 0)
    memory = np.full(size, 0xFF, np.uint8)
    count = int(np.prod(images.padded_shape))
    slot = memory[: 2 * count].view(np.float16).reshape(images.padded_shape)
    compact = np.arange(shape.numel, dtype=np.float16).reshape(tuple(shape))
    change_layout(compact, slot, shape.c)
    place = 2 * sum(
        at * stride for at, stride in zip((1, 2, 4, 1), images.padded_strides, strict=True)
    )
    assert memory[place : place + 2].view(np.float16)[0] == compact[1, 2, 4, 1]


@pytest.mark.parametrize(
    ("source", "target", "channels"),
    [
        ((1, 2, 2, 3), (1, 2, 3, 4), 3),
        ((1, 2, 2, 3), (1, 2, 2, 4), 4),
        ((1, 2, 2, 4), (1, 2, 2, 3), 4),
        ((1, 2, 2, 3), (1, 2, 2, 4), 0),
        ((2, 2, 3), (2, 2, 4), 3),
    ],
)
def test_arrays_that_differ_in_more_than_padding_are_refused(
    source: tuple[int, ...], target: tuple[int, ...], channels: int
) -> None:
    made = np.ones(source, np.float32), np.ones(target, np.float32)
    with pytest.raises(MemoryPlanError, match=f"layout of {channels} channels"):
        change_layout(*made, channels)
    assert made[1].all()


def test_elements_are_moved_and_never_converted() -> None:
    with pytest.raises(MemoryPlanError, match=r"from float32\[1, 1, 1, 3\] to float16"):
        change_layout(np.ones((1, 1, 1, 3), np.float32), np.ones((1, 1, 1, 4), np.float16), 3)
