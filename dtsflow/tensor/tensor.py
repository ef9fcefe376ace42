"""Tensors in host memory, descriptors of tensors in a plan, and their conversions.

`Tensor` holds its memory. `DTensor` says what a tensor of a plan holds and where, never
the bytes. `change_layout` goes from compact to padded channels and back, `cast_run`
converts numbers from one width of floating point to another.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.align import ALIGN, aligned_bytes
from dtsflow.memory.region import Region, Variant, padded_channels
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import RANK, Shape

Pin = Callable[[int], npt.NDArray[np.uint8]]
"""Gives that many bytes of page-locked memory, from a multiple of 256 on. A device
arena has one, so that its copies need no detour."""


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """Elements on the host: compact NHWC, from an address that is a multiple of 256.

    `array` is the memory itself, with four sides; writing to it writes to the tensor.
    Tensors are made by `zeros`, `copy_of` or `wrap`. Nothing else copies, and Python's
    own implicit copies (`copy`, `pickle`) are refused.

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
        """Allocate memory of its own, all zero; page-locked if `pin` gives it.

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
        """Copy one to four sides, batch first, channels last; see `Shape`.

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
        """Make the memory of `array` a tensor, without a copy; sides as in `copy_of`.

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
        """Return its four sides."""
        return Shape(*self.array.shape)

    @property
    def bytes(self) -> npt.NDArray[np.uint8]:
        """Return the same memory as one row of bytes."""
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


UNPLACED = -1

FourInts = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class DTensor:
    """One tensor of a memory plan.

    `slot_bytes` is what the plan reserves for it; `offset` counts bytes from the start
    of the arena and is -1 until the plan is final. Strides count elements. `variants`
    are the other forms that the slot takes; shape and dtype are those of the main one.
    """

    id: int
    name: str
    shape: Shape
    dtype: DType
    region: Region
    slot_bytes: int
    offset: int = UNPLACED
    variants: tuple[Variant, ...] = ()

    def __str__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"tensor {self.id}{name} {self.dtype.value}{self.shape} in {self.region.name}"

    @property
    def forms(self) -> "tuple[DTensor, ...]":
        """Return the main form, then every variant, each describing the same slot."""
        return self, *(self.as_variant(i) for i in range(len(self.variants)))

    def as_variant(self, i: int) -> "DTensor":
        """Return the slot in the form of variant `i` (from 0), at the same offset.

        Raises:
            MemoryPlanError: There is no such variant.
        """
        if not 0 <= i < len(self.variants):
            raise MemoryPlanError(
                f"variant {i} of {self} was asked for, and it has {len(self.variants)}, "
                "numbered from 0. Name the form when its slot is allocated."
            )
        variant = self.variants[i]
        return replace(self, shape=variant.shape, dtype=variant.dtype, variants=())

    @property
    def padded_c(self) -> int:
        """Return the channels as stored on a device, padding included."""
        return padded_channels(self.shape.c, self.dtype, self.region)

    @property
    def padded_shape(self) -> FourInts:
        """Return the sides (n, h, w, c) of the array that the slot begins with."""
        return self.shape.n, self.shape.h, self.shape.w, self.padded_c

    @property
    def is_compact(self) -> bool:
        """Tell whether no channel padding lies between two pixels."""
        return self.padded_c == self.shape.c

    @property
    def nbytes(self) -> int:
        """Return the bytes of the elements themselves, without padding."""
        return self.shape.numel * self.dtype.itemsize

    @property
    def compact_strides(self) -> FourInts:
        """Return strides (n, h, w, c) without channel padding, as on the host."""
        return _strides(self.shape, self.shape.c)

    @property
    def padded_strides(self) -> FourInts:
        """Return strides (n, h, w, c) with channel padding, as the slot is laid out."""
        return _strides(self.shape, self.padded_c)

    @property
    def cudnn_dims(self) -> FourInts:
        """Return the logical sides in cuDNN's order N, C, H, W."""
        n, h, w, c = self.shape
        return n, c, h, w

    @property
    def cudnn_strides(self) -> FourInts:
        """Return the padded strides in cuDNN's order N, C, H, W; that of C is 1."""
        n, h, w, c = self.padded_strides
        return n, c, h, w


def _strides(shape: Shape, channels: int) -> FourInts:
    return shape.h * shape.w * channels, shape.w * channels, channels, 1


def change_layout(source: npt.NDArray[Any], target: npt.NDArray[Any], channels: int) -> None:
    """Copy `channels` channels of each pixel; what else `target` has becomes zero.

    Both are (n, h, w, stored channels) of one type, any strides. So a target with more
    channels is padded, one with `channels` is made compact, and the padding of a source
    is never read. Types do not matter: elements are moved, not converted.

    Raises:
        MemoryPlanError: The two differ in more than stored channels, or one has fewer
            than `channels`.
    """
    stored = [array.shape[-1] if array.ndim == RANK else 0 for array in (source, target)]
    if (
        source.dtype != target.dtype
        or source.shape[:-1] != target.shape[:-1]
        or not 1 <= channels <= min(stored)
    ):
        raise MemoryPlanError(
            f"the layout of {channels} channels was to be changed from {source.dtype.name}"
            f"{list(source.shape)} to {target.dtype.name}{list(target.shape)}: both must have "
            f"the same type and n, h and w, and at least {channels} channels."
        )
    target[..., :channels] = source[..., :channels]
    target[..., channels:] = 0


FLOATS: Final = frozenset({DType.FP32, DType.FP16, DType.BF16})
_PIECE: Final = 1 << 18  # elements at a time, so that what lies between stays in the cache
_QUIET: Final = np.uint16(0x40)  # the bit that makes a BF16 of all-ones exponent a NaN


def cast_run(
    source: npt.NDArray[np.uint8],
    source_dtype: DType,
    target: npt.NDArray[np.uint8],
    target_dtype: DType,
) -> int:
    """Convert a run of slots, gaps included, between FP32, FP16 and BF16.

    `source` and `target` are the bytes of two runs of regions, as `MemoryPlan.range`
    gives them. As many elements as both hold are converted; returns how many. Slots are
    sized so that an element has the same number in both (`memory/region.py`).

    Raises:
        MemoryPlanError: A type is not such a float, an argument is not a row of bytes,
            or the two share memory.
    """
    _check(source, source_dtype, target, target_dtype)
    count = min(source.size // source_dtype.itemsize, target.size // target_dtype.itemsize)
    given = source[: count * source_dtype.itemsize].view(source_dtype.numpy)
    taken = target[: count * target_dtype.itemsize].view(target_dtype.numpy)
    for start in range(0, count, _PIECE):
        piece = slice(start, start + _PIECE)
        taken[piece] = from_float32(to_float32(given[piece], source_dtype), target_dtype)
    return count


def to_float32(values: npt.NDArray[Any], dtype: DType) -> npt.NDArray[np.float32]:
    """Return the exact value of FP32, FP16, or BF16 (uint16 bits); NaN stays NaN."""
    if dtype is DType.BF16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):  # a signalling NaN is expected here
        return values.astype(np.float32, copy=False)


def from_float32(values: npt.NDArray[np.float32], dtype: DType) -> npt.NDArray[Any]:
    """Round to nearest, ties to even, as IEEE 754 does: overflow is infinity.

    NaN stays NaN; BF16 comes as uint16 bits.
    """
    if dtype is DType.BF16:
        return _bfloat16(values)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return values.astype(dtype.numpy, copy=False)


def _bfloat16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    bits = values.view(np.uint32)
    upper = (bits >> 16).astype(np.uint16)
    # Half of the last place, less one where the number is even already. A NaN may wrap
    # around here, and is set right below.
    rounded = ((bits + np.uint32(0x7FFF) + (upper & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), upper | _QUIET, rounded)


def _check(
    source: npt.NDArray[np.uint8],
    source_dtype: DType,
    target: npt.NDArray[np.uint8],
    target_dtype: DType,
) -> None:
    runs = f"a run of {source_dtype.value} was to be cast to {target_dtype.value}"
    if not {source_dtype, target_dtype} <= FLOATS:
        raise MemoryPlanError(f"{runs}, and only FP32, FP16 and BF16 are cast into each other.")
    for run in (source, target):
        if run.dtype != np.uint8 or run.ndim != 1 or not run.flags.c_contiguous:
            raise MemoryPlanError(
                f"{runs}, and one was given as {run.dtype.name}{list(run.shape)}. Give both as "
                "a compact row of bytes."
            )
    if np.may_share_memory(source, target):
        raise MemoryPlanError(f"{runs} in the same memory. Cast to memory of its own.")
