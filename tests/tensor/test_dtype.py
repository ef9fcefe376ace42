import numpy as np
import pytest

from dtsflow.tensor.dtype import DType

SIZES = {
    DType.FP64: 8,
    DType.FP32: 4,
    DType.FP16: 2,
    DType.BF16: 2,
    DType.INT64: 8,
    DType.INT32: 4,
    DType.INT8: 1,
    DType.UINT8: 1,
}


@pytest.mark.parametrize("dtype", DType)
def test_every_type_has_its_size_and_finds_itself_by_its_numpy_type(dtype: DType) -> None:
    assert dtype.itemsize == SIZES[dtype]
    assert DType.of(dtype.numpy) is dtype


def test_bf16_is_carried_as_uint16() -> None:
    assert DType.BF16.numpy == np.uint16


def test_a_numpy_type_that_no_tensor_has_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        DType.of(np.complex64)
