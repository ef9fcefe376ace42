"""Specs of what flows between pipeline stages: fields with shape, dtype and memory.

Specs are passed through the graph at plan time, left to right, without a byte of data.
A size that differs from sample to sample is None.
"""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dtsflow.tensor.dtype import DType

IMAGES: Final = "images"
"""The field of a batch that the main chain makes."""

Sides = tuple[int | None, ...]


class Place(Enum):
    """The memory in which the bytes of a field live."""

    DISK = "disk"
    HOST = "host"
    ZONE = "zone"
    DEVICE = "device"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One named field of a record; `shape` is per sample, None where it varies."""

    name: str
    shape: Sides
    dtype: DType
    place: Place

    def __str__(self) -> str:
        sides = "x".join("?" if side is None else str(side) for side in self.shape)
        return (
            f"{self.name} {self.dtype.value}[{sides}]"
            if sides
            else f"{self.name} {self.dtype.value}"
        )


@dataclass(frozen=True, slots=True)
class Field:
    """An array that a batch of records has: a row a sample, its first axis.

    The records decide how ranks get it, see `Split`: each rank gets the rows of its own
    samples, or each gets all rows.

    Attributes:
        name: Its name in a batch.
        shape: The sides of one row, up to three; () for one number a row.
        dtype: The element type.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType

    def spec(self, place: Place) -> FieldSpec:
        """Return this field as one of a record."""
        return FieldSpec(self.name, self.shape, self.dtype, place)

    @property
    def row_bytes(self) -> int:
        """Return the bytes of one row."""
        return math.prod(self.shape) * self.dtype.itemsize

    def empty(self, rows: int) -> npt.NDArray[Any]:
        """Allocate memory for so many rows."""
        return np.empty((rows, *self.shape), self.dtype.numpy)


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """One image, height x width x channels; None where images differ."""

    height: int | None
    width: int | None
    channels: int
    dtype: DType = DType.UINT8

    def __str__(self) -> str:
        sides = "x".join("?" if s is None else str(s) for s in (self.height, self.width))
        return f"{self.dtype.value}[{sides}x{self.channels}]"

    def field(self, name: str, place: Place) -> FieldSpec:
        """Return this image as a field of a record."""
        return FieldSpec(name, (self.height, self.width, self.channels), self.dtype, place)


@dataclass(frozen=True, slots=True)
class RecordSpec:
    """The fields that one edge of the graph carries for every sample."""

    fields: tuple[FieldSpec, ...]

    def __str__(self) -> str:
        places = ", ".join(dict.fromkeys(field.place.value for field in self.fields))
        return f"{', '.join(str(field) for field in self.fields)} ({places})"
