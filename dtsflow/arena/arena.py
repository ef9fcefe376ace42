"""The contract of an arena: memory to fill, and filled batches at fixed addresses.

A `Form` says which fields a batch has in a zone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Thread
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from dtsflow.memory.plan import InputBuffer, MemoryPlan
from dtsflow.memory.region import Variant
from dtsflow.native.core import Finish
from dtsflow.spec import IMAGES, ImageSpec
from dtsflow.spec import Field as RecordField
from dtsflow.station.double_buffer import DoubleBuffer
from dtsflow.station.zone import Field, Zone
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
        """Return what so many rows occupy."""
        return int(np.prod(self.stored_shape(rows))) * self.dtype.itemsize

    def within(self, slots: npt.NDArray[np.uint8], offset: int, rows: int) -> Field:
        """Return the field in the bytes of a zone, from `offset` on."""
        part = slots[offset : offset + self.nbytes(rows)]
        stored = part.view(self.dtype.numpy).reshape(self.stored_shape(rows))
        return Field(stored, self.logical(stored), offset)

    def logical(self, stored: Any) -> Any:
        """Return an array of any library without the padding behind the last side."""
        return stored[..., : self.sides[-1]] if self.padding else stored

    def stored_shape(self, rows: int) -> tuple[int, ...]:
        """Return the shape of so many rows with their padding."""
        if not self.sides:
            return (rows,)
        return rows, *self.sides[:-1], self.sides[-1] + self.padding


def image_form(name: str, pixels: ImageSpec, stored_channels: int) -> FieldForm:
    """Return a field of images, all of one size."""
    assert pixels.height is not None  # Chain.specs refuses a chain that ends otherwise
    assert pixels.width is not None
    sides = (pixels.height, pixels.width, pixels.channels)
    return FieldForm(name, sides, pixels.dtype, stored_channels - pixels.channels)


@dataclass(frozen=True, slots=True)
class Form:
    """The fields that one phase puts into a zone.

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
        """Return the form of a batch that has these fields, and no images."""
        main, *others = (FieldForm(field.name, field.shape, field.dtype) for field in fields)
        return cls(rows, None, 0, fields=tuple(others), main=main)

    @property
    def image(self) -> Shape:
        """Return the shape of one row's pixels, without padding."""
        pixels = self.pixels
        assert pixels is not None
        assert pixels.height is not None  # Chain.specs refuses a chain that ends otherwise
        assert pixels.width is not None
        return Shape(1, pixels.height, pixels.width, pixels.channels)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of stored images, or of the field in their place."""
        return self.delivered.stored_shape(self.rows)

    @property
    def delivered(self) -> FieldForm:
        """Return the images as a batch has them, or the field in their place."""
        if self.main is not None:
            return self.main
        assert self.pixels is not None
        return image_form(IMAGES, self.pixels, self.stored_channels)

    @property
    def stored(self) -> FieldForm:
        """Return the same as the workers leave it in the zone."""
        if self.finish is None:
            return self.delivered
        assert self.pixels is not None
        return image_form(IMAGES, replace(self.pixels, dtype=DType.UINT8), self.pixels.channels)

    @property
    def buffer(self) -> InputBuffer:
        """Return what the memory plan must have room for."""
        fields = {field.name: field.variant(self.rows) for field in self.fields}
        main = replace(self.delivered, padding=0)
        row = main.variant(self.rows)
        return InputBuffer(self.rows, replace(row.shape, n=1), row.dtype, fields, main.name)


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """A filled batch, readable until it is given back.

    Attributes:
        step: The global batch.
        zone: 0 or 1, the memory it lies in.
        images: Pixels (B, H, W, C), of NumPy or of the device's library.
        padded: The same pixels with padded channels.
        labels: int32 (B,).
        valid: bool (B,), on the host.
        sample_ids: int64 (B,), on the host.
        fields: Those beside images and labels, by name.
    """

    step: int
    zone: int
    images: Any
    padded: Any
    labels: Any
    valid: npt.NDArray[np.bool_]
    sample_ids: npt.NDArray[np.int64]
    fields: Mapping[str, Any] = field(default_factory=dict)


class Feed(Protocol):
    """The batches of one pass over an epoch, one after another."""

    def take(self) -> Delivery:
        """Return the next batch, once it is there.

        Raises:
            StallError: It was not filled in time.
            ClosedError: The pass was closed.
            BaseException: What a worker failed with in this batch.
        """

    def give_back(self) -> None:
        """Say that the next batch is asked for: the last one may be overwritten."""

    def end(self) -> None:
        """End the pass, however it went; may be called again."""


class Arena(Protocol):
    """The memory of a run's batches.

    A phase has a form for each resolution that its batches come in; a form's name is
    the phase's own where there is one alone.
    """

    @property
    def zones(self) -> Mapping[str, tuple[Zone, Zone]]:
        """By name of the form, the host memory that workers write to."""

    def feed(  # of one pass, joined in one place only
        self,
        form: str,
        double_buffer: DoubleBuffer,
        *,
        timeout_s: float,
        progress: Callable[[], str],
        poison: bool,
        stream: Any = None,
    ) -> Feed:
        """Hand over the batches of `double_buffer`; one feed at a time.

        It must be asked for before the workers begin: only then is nothing of the feed
        before it still reading the zones that they write.
        `stream` is what the consumer works on, where the arena is a device's.
        """

    @property
    def threads(self) -> Sequence[Thread]:
        """Return the threads that move batches."""

    def close(self, *, wait: bool = True) -> None:
        """End what moves batches; the memory is free once nothing refers to it.

        Without `wait` it ends by itself, later: for a caller that may hold a lock which
        others want.
        """


@runtime_checkable
class ArenaConfig(Protocol):
    """A configured arena."""

    @property
    def finishes(self) -> bool:
        """Tell whether the last step, Normalize, is done where the batches live."""

    def host_bytes(self, plan: MemoryPlan, forms: Mapping[str, Form]) -> int:
        """Return what `open` allocates on the host."""

    def open(self, plan: MemoryPlan, forms: Mapping[str, Form], *, local_rank: int = 0) -> Arena:
        """Allocate what `plan` describes, for batches that have these forms.

        `local_rank` is this rank's number on its node.
        """
