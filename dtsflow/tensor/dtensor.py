"""A tensor's description: what it holds and where in the plan, never the bytes."""

from dataclasses import dataclass, replace

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.region import Region
from dtsflow.memory.slot import padded_channels
from dtsflow.memory.variant import Variant
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape

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
        """The main form and then every variant, each a descriptor of the same slot."""
        return self, *(self.as_variant(i) for i in range(len(self.variants)))

    def as_variant(self, i: int) -> "DTensor":
        """The slot in the form of variant `i` (from 0), at the same place.

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
        """Channels as stored on a device, padding included."""
        return padded_channels(self.shape.c, self.dtype, self.region)

    @property
    def padded_shape(self) -> FourInts:
        """The sides (n, h, w, c) of the array that the slot begins with."""
        return self.shape.n, self.shape.h, self.shape.w, self.padded_c

    @property
    def is_compact(self) -> bool:
        """Whether no channel padding lies between two pixels."""
        return self.padded_c == self.shape.c

    @property
    def nbytes(self) -> int:
        """Bytes of the elements themselves, without padding."""
        return self.shape.numel * self.dtype.itemsize

    @property
    def compact_strides(self) -> FourInts:
        """Strides (n, h, w, c) without channel padding, as host tensors lie."""
        return _strides(self.shape, self.shape.c)

    @property
    def padded_strides(self) -> FourInts:
        """Strides (n, h, w, c) with channel padding, as the slot is laid out."""
        return _strides(self.shape, self.padded_c)

    @property
    def cudnn_dims(self) -> FourInts:
        """The logical sides in cuDNN's order N, C, H, W."""
        n, h, w, c = self.shape
        return n, c, h, w

    @property
    def cudnn_strides(self) -> FourInts:
        """The padded strides in cuDNN's order N, C, H, W; that of C is 1."""
        n, h, w, c = self.padded_strides
        return n, c, h, w


def _strides(shape: Shape, channels: int) -> FourInts:
    return shape.h * shape.w * channels, shape.w * channels, channels, 1
