"""A tensor in host memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.align import ALIGN, aligned_bytes
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape

Pin = Callable[[int], npt.NDArray[np.uint8]]
"""Gives that many bytes of page-locked memory, from a multiple of 256 on. A device
arena has one, so that its copies need no detour."""


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """Elements on the host: compact NHWC, from an address that is a multiple of 256.

    `array` is the memory itself, with four sides; who holds it writes to the tensor.
    Made by `zeros`, `copy_of` or `wrap`; nothing else copies, and Python's own ways to
    copy one in passing (`copy`, `pickle`) are refused.

    Raises:
        MemoryPlanError: The array is not such memory, or not of that type.
    """

    array: npt.NDArray[Any]
    dtype: DType

    def __post_init__(self) -> None:
        array, skew = self.array, self.array.ctypes.data % ALIGN
        if array.dtype != self.dtype.numpy:
            raise MemoryPlanError(
                f"an array of {array.dtype.str} was given as {self.dtype.value}, which is "
                f"{self.dtype.numpy.str}. Convert it first."
            )
        if not array.flags.c_contiguous or skew:
            why = f"begins {skew} bytes past a multiple of {ALIGN}" if skew else "is not compact"
            raise MemoryPlanError(
                f"an array of shape {array.shape} {why}, and a tensor is compact memory from a "
                f"multiple of {ALIGN} on. Take a copy with Tensor.copy_of."
            )
        if array.shape != tuple(Shape.from_logical(array.shape)):
            raise MemoryPlanError(
                f"an array of shape {array.shape} was given, and a tensor has four sides. Use "
                "Tensor.wrap or Tensor.copy_of, which add those that are missing."
            )

    @classmethod
    def zeros(cls, shape: Shape, dtype: DType, *, pin: Pin | None = None) -> "Tensor":
        """Memory of its own, all zero; page-locked if `pin` gives it.

        Raises:
            MemoryPlanError: What `pin` gave is too little or begins elsewhere.
        """
        nbytes = shape.numel * dtype.itemsize
        if pin is None:
            memory = aligned_bytes(nbytes, ALIGN)
        else:
            memory = pin(nbytes)[:nbytes]
            if memory.nbytes < nbytes:
                raise MemoryPlanError(
                    f"{nbytes} bytes of page-locked memory were asked for and "
                    f"{memory.nbytes} were given. The `pin` function is wrong."
                )
            memory[:] = 0
        return cls(memory.view(dtype.numpy).reshape(tuple(shape)), dtype)

    @classmethod
    def copy_of(cls, array: npt.ArrayLike, *, pin: Pin | None = None) -> "Tensor":
        """A copy of one to four sides, batch first, channels last; see `Shape`.

        So the weights (O, I) of a fully connected layer are [O,1,1,I].

        Raises:
            MemoryPlanError: No tensor has that many sides, or that type of element.
        """
        given = np.asarray(array)
        made = cls.zeros(Shape.from_logical(given.shape), _dtype_of(given), pin=pin)
        made.array[...] = given.reshape(made.array.shape)
        return made

    @classmethod
    def wrap(cls, array: npt.NDArray[Any]) -> "Tensor":
        """The memory of `array` as a tensor, without a copy; sides as in `copy_of`.

        Raises:
            MemoryPlanError: It is not compact memory from a multiple of 256 on, or no
                tensor has its sides or type.
        """
        dtype = _dtype_of(array)
        sides = tuple(Shape.from_logical(array.shape))
        # NumPy would copy what it cannot view in four sides: that is never asked for.
        return cls(array.reshape(sides) if array.flags.c_contiguous else array, dtype)

    @property
    def shape(self) -> Shape:
        """Its four sides."""
        return Shape(*self.array.shape)

    @property
    def bytes(self) -> npt.NDArray[np.uint8]:
        """The same memory as one row of bytes."""
        return self.array.reshape(-1).view(np.uint8)

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise TypeError(
            f"the tensor {self.dtype.value}{self.shape} was to be copied or pickled in passing. "
            "Copy it with Tensor.copy_of(tensor.array), or store it with save_tensors."
        )


def _dtype_of(array: npt.NDArray[Any]) -> DType:
    try:
        return DType.of(array.dtype)
    except KeyError:
        raise MemoryPlanError(
            f"an array of {array.dtype.str} was given, and tensors hold "
            f"{', '.join(dtype.value for dtype in DType)}. Convert it first."
        ) from None
