"""BF16 through DLPack: NumPy knows the 16 bits only, and says uint16."""

import ctypes
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dtsflow.errors import ConfigError
from dtsflow.tensor.dtype import DType

# What dlpack.h (github.com/dmlc/dlpack, v1.0) calls kDLUInt and kDLBfloat.
_UINT: Final = 1
_BFLOAT: Final = 4


class _Tensor(ctypes.Structure):
    """DLTensor, its DLDevice and DLDataType written out."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """DLManagedTensor as far as it is read here: what consumers before 1.0 get."""

    _fields_ = (("tensor", _Tensor),)


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_KINDS: Final = ((b"dltensor", _Managed), (b"dltensor_versioned", _Versioned))

_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class Bfloat16:
    """The bits of BF16 numbers as an array that `from_dlpack` takes for bfloat16.

    `torch.from_dlpack(Bfloat16(batch.images))` shares the memory of the batch, which is
    therefore readable until the next one is asked for.

    Args:
        bits: uint16, of any shape and strides; writable, for NumPy exports no other
            memory to every consumer.

    Raises:
        ConfigError: It is an array of another type.
    """

    def __init__(self, bits: npt.NDArray[np.uint16]) -> None:
        if bits.dtype != DType.BF16.numpy:
            raise ConfigError(
                f"the array is of {bits.dtype}, and BF16 is carried as uint16. Give arrays of "
                "other types to from_dlpack as they are."
            )
        self._bits = bits

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the device that the memory is on: NumPy's, the CPU."""
        kind, number = self._bits.__dlpack_device__()
        return int(kind), int(number)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Give a capsule, as NumPy's own, whose elements are called bfloat16.

        Raises:
            BufferError: NumPy doesn't export the memory, or not so.
        """
        asked = {
            "stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy,
        }  # fmt: skip
        # NumPy 2.0 knows only the first, and consumers try again without the others.
        given = {name: value for name, value in asked.items() if value is not None}
        export: Any = self._bits.__dlpack__
        capsule = export(**given)
        _name_bfloat(capsule)
        return capsule


def _name_bfloat(capsule: object) -> None:
    """Change the element type of a capsule that nobody has taken yet."""
    name, kind = next(each for each in _KINDS if _is_valid(capsule, each[0]))
    tensor = kind.from_address(_pointer(capsule, name)).tensor
    assert (tensor.code, tensor.bits, tensor.lanes) == (_UINT, 16, 1)
    tensor.code = _BFLOAT
