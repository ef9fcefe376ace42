"""What a batch takes in a zone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dtsflow.memory.input_buffer import InputBuffer
from dtsflow.memory.variant import Variant
from dtsflow.native.steps import Finish
from dtsflow.spec import IMAGES, ImageSpec
from dtsflow.spec import Field as RecordField
from dtsflow.station.zone import Field
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape


@dataclass(frozen=True, slots=True)
class FieldForm:
    """A field that a batch has beside its images and labels.

    Attributes:
        name: What a batch calls it.
        sides: The shape of one row: up to three sides.
        dtype: The element type.
        padding: Elements of zero behind the last side, as those of padded channels.
    """

    name: str
    sides: tuple[int, ...]
    dtype: DType
    padding: int = 0

    def variant(self, rows: int) -> Variant:
        """So many rows, as the memory plan describes them.

        Raises:
            MemoryPlanError: A row has more than three sides, or an empty one.
        """
        return Variant(Shape.from_logical((rows, *self.sides)), self.dtype)

    def nbytes(self, rows: int) -> int:
        """What so many rows occupy."""
        return int(np.prod(self.stored_shape(rows))) * self.dtype.itemsize

    def within(self, slots: npt.NDArray[np.uint8], offset: int, rows: int) -> Field:
        """The field in the bytes of a zone, from `offset` on."""
        part = slots[offset : offset + self.nbytes(rows)]
        stored = part.view(self.dtype.numpy).reshape(self.stored_shape(rows))
        return Field(stored, self.logical(stored), offset)

    def logical(self, stored: Any) -> Any:
        """An array of any library without the padding behind the last side."""
        return stored[..., : self.sides[-1]] if self.padding else stored

    def stored_shape(self, rows: int) -> tuple[int, ...]:
        """The shape of so many rows with their padding."""
        if not self.sides:
            return (rows,)
        return rows, *self.sides[:-1], self.sides[-1] + self.padding


def image_form(name: str, pixels: ImageSpec, stored_channels: int) -> FieldForm:
    """A field of images, all of one size."""
    assert pixels.height is not None  # Chain.specs refuses a chain that ends otherwise
    assert pixels.width is not None
    sides = (pixels.height, pixels.width, pixels.channels)
    return FieldForm(name, sides, pixels.dtype, stored_channels - pixels.channels)


@dataclass(frozen=True, slots=True)
class Form:
    """What one phase puts into a zone.

    Attributes:
        rows: Rows of each batch on this rank.
        pixels: One row's pixels, all of one size; None: a batch of records has none.
        stored_channels: Channels that a pixel takes in the zone.
        finish: The last step, if a device is to do it. The workers then leave UINT8
            pixels without padding, and the rest says what the device makes of them.
        fields: Those beside images and labels, in the order they lie in.
        main: Of a batch of records, the field that lies where images do in others.
    """

    rows: int
    pixels: ImageSpec | None
    stored_channels: int
    finish: Finish | None = None
    fields: tuple[FieldForm, ...] = ()
    main: FieldForm | None = None

    @classmethod
    def of_records(cls, rows: int, fields: Sequence[RecordField]) -> Self:
        """The form of a batch that has these fields, and no images."""
        main, *others = (FieldForm(field.name, field.shape, field.dtype) for field in fields)
        return cls(rows, None, 0, fields=tuple(others), main=main)

    @property
    def image(self) -> Shape:
        """The shape of one row's pixels, without padding."""
        pixels = self.pixels
        assert pixels is not None
        assert pixels.height is not None  # Chain.specs refuses a chain that ends otherwise
        assert pixels.width is not None
        return Shape(1, pixels.height, pixels.width, pixels.channels)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of images with stored channels, or of what is in their place."""
        return self.delivered.stored_shape(self.rows)

    @property
    def delivered(self) -> FieldForm:
        """The images as a batch has them, or the field in their place."""
        if self.main is not None:
            return self.main
        assert self.pixels is not None
        return image_form(IMAGES, self.pixels, self.stored_channels)

    @property
    def stored(self) -> FieldForm:
        """The same as the workers leave it in the zone."""
        if self.finish is None:
            return self.delivered
        assert self.pixels is not None
        return image_form(IMAGES, replace(self.pixels, dtype=DType.UINT8), self.pixels.channels)

    @property
    def buffer(self) -> InputBuffer:
        """What the memory plan must have room for."""
        fields = {field.name: field.variant(self.rows) for field in self.fields}
        main = replace(self.delivered, padding=0)
        row = main.variant(self.rows)
        return InputBuffer(self.rows, replace(row.shape, n=1), row.dtype, fields, main.name)
