import copy
import pickle

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis.strategies import builds, integers, sampled_from

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.align import aligned_bytes
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape
from dtsflow.tensor.tensor import Tensor

small = integers(1, 9)
shapes = builds(Shape, small, small, small, small)


def aligned(*sides: int, skew: int = 0) -> npt.NDArray[np.float32]:
    """An array whose address is `skew` elements past a multiple of 256."""
    count = int(np.prod(sides))
    memory = aligned_bytes(4 * (count + skew), 256).view(np.float32)[skew:]
    memory[:] = np.arange(count)
    return memory.reshape(sides)


@given(shapes, sampled_from(DType))
def test_new_memory_is_aligned_compact_and_zero(shape: Shape, dtype: DType) -> None:
    tensor = Tensor.zeros(shape, dtype)
    assert tensor.array.ctypes.data % 256 == 0
    assert tensor.array.flags.c_contiguous
    assert tensor.array.dtype == dtype.numpy
    assert (tensor.shape, tensor.dtype) == (shape, dtype)
    assert tensor.bytes.shape == (shape.numel * dtype.itemsize,)
    assert not tensor.bytes.any()


def test_a_copy_has_the_elements_and_none_of_the_memory() -> None:
    given = np.arange(24, dtype=np.int32).reshape(2, 3, 4)[:, ::-1]
    tensor = Tensor.copy_of(given)
    assert tensor.shape == Shape(2, 1, 3, 4)
    assert np.array_equal(tensor.array[:, 0], given)
    assert not np.shares_memory(tensor.array, given)


def test_the_weights_of_a_fully_connected_layer_have_their_inputs_as_channels() -> None:
    weights = np.arange(15, dtype=np.float32).reshape(5, 3)  # (O, I)
    tensor = Tensor.copy_of(weights)
    assert tensor.shape == Shape(5, 1, 1, 3)
    assert np.array_equal(tensor.array.reshape(5, 3), weights)
    assert Tensor.copy_of(weights[:, 0]).shape == Shape(5, 1, 1, 1)


def test_wrapping_shares_the_memory() -> None:
    array = aligned(4, 6)
    tensor = Tensor.wrap(array)
    assert tensor.shape == Shape(4, 1, 1, 6)
    array[3, 5] = -7
    assert tensor.array[3, 0, 0, 5] == -7
    tensor.bytes[:] = 0
    assert not array.any()


def test_bits_in_uint16_are_bf16() -> None:
    assert Tensor.copy_of(np.zeros(3, np.uint16)).dtype is DType.BF16


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (aligned(4, 6, skew=1), r"begins 4 bytes past a multiple of 256.*copy_of"),
        (aligned(4, 6).T, r"\(6, 4\) is not compact"),
        (aligned(1, 2, 4, 6)[..., :3], r"\(1, 2, 4, 3\) is not compact"),
        (aligned(1, 1, 1, 2, 3), "5 dimensions"),
        (aligned(6).astype(">f4"), "array of >f4 was given, and tensors hold FP64, FP32"),
        (aligned(6).astype(bool), r"array of \|b1 was given"),
        (np.zeros((2, 0), np.float32), r"\[2,1,1,0\]|c is 0"),
    ],
)
def test_memory_that_is_no_tensor_is_refused_not_copied(
    array: npt.NDArray[np.float32], message: str
) -> None:
    with pytest.raises(MemoryPlanError, match=message):
        Tensor.wrap(array)


def test_a_tensor_of_another_type_or_fewer_sides_than_its_array_is_refused() -> None:
    with pytest.raises(MemoryPlanError, match="array of <f4 was given as INT32, which is <i4"):
        Tensor(aligned(1, 1, 1, 6), DType.INT32)
    with pytest.raises(MemoryPlanError, match=r"shape \(6,\) was given, and .* four sides"):
        Tensor(aligned(6), DType.FP32)


@pytest.mark.parametrize("dodge", [copy.copy, copy.deepcopy, pickle.dumps])
def test_nothing_copies_a_tensor_in_passing(dodge: object) -> None:
    assert callable(dodge)
    with pytest.raises(TypeError, match=r"FP32\[2,1,1,2\] .* Tensor\.copy_of"):
        dodge(Tensor.zeros(Shape(2, 1, 1, 2), DType.FP32))


def test_memory_comes_from_the_pin_function_and_starts_as_zero() -> None:
    asked = []

    def pin(nbytes: int) -> npt.NDArray[np.uint8]:
        asked.append(nbytes)
        memory = aligned_bytes(4096, 256)  # a pool may give more than was asked for
        memory[:] = 0xFF
        pool.append(memory)
        return memory

    pool: list[npt.NDArray[np.uint8]] = []
    zeros = Tensor.zeros(Shape(2, 1, 1, 3), DType.INT64, pin=pin)
    copied = Tensor.copy_of([[1.0, 2.0]], pin=pin)
    assert asked == [48, 16]
    assert not zeros.array.any()
    assert copied.array.ravel().tolist() == [1.0, 2.0]
    assert np.shares_memory(zeros.array, pool[0])
    assert np.shares_memory(copied.array, pool[1])


def test_a_pin_function_that_gives_the_wrong_memory_is_found_out() -> None:
    shape = Shape(1, 1, 1, 10)
    with pytest.raises(MemoryPlanError, match=r"10 bytes of page-locked .* and 9 were given"):
        Tensor.zeros(shape, DType.UINT8, pin=lambda nbytes: aligned_bytes(nbytes - 1, 256))
    with pytest.raises(MemoryPlanError, match="begins 16 bytes past"):
        Tensor.zeros(shape, DType.UINT8, pin=lambda nbytes: aligned_bytes(nbytes + 16, 256)[16:])
