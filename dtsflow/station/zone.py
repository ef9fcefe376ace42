"""One half of the station: the arrays that one batch is written into."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dtsflow.spec import IMAGES
from dtsflow.volume.data_set import Column


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """An array of a zone that has a row for each sample.

    Attributes:
        stored: All rows, with padding behind their last side.
        array: The same without the padding.
        offset: Where it begins in the zone's slots.
    """

    stored: npt.NDArray[np.generic]
    array: npt.NDArray[np.generic]
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Zone:
    """The memory of one batch; the arrays never move during a run.

    Attributes:
        slots: The bytes of all device slots of this zone, as one copy would move them.
        labels: int32 (B,); -1 in a missing row.
        padded: Pixels with padded channels (B, H, W, padded C); padding is zero.
        images: The logical (B, H, W, C) view of `padded`.
        valid: bool (B,); False in a missing row. Host only.
        sample_ids: int64 (B,); -1 in a missing row. Host only.
        data_offset: Where the pixels begin in `slots`.
        fields: What the batch has beside images and labels, by name.
    """

    slots: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int32]
    padded: npt.NDArray[np.generic]
    images: npt.NDArray[np.generic]
    valid: npt.NDArray[np.bool_]
    sample_ids: npt.NDArray[np.int64]
    data_offset: int
    fields: Mapping[str, Field] = dataclasses.field(default_factory=dict)

    def field(self, name: str) -> Field:
        """Return the field `name`; `images` is one, too."""
        if name == IMAGES:
            return Field(self.padded, self.images, self.data_offset)
        return self.fields[name]

    def enter_rows(
        self,
        places: npt.NDArray[np.int64],
        labels: npt.NDArray[np.int32],
        sample_ids: npt.NDArray[np.int64],
        columns: Sequence[Column] = (),
    ) -> None:
        """Say of rows whose pixels are written what they show: all that a set knows."""
        self.labels[places] = labels
        self.sample_ids[places] = sample_ids
        self.valid[places] = True
        for column in columns:
            self.fields[column.field.name].array[places] = column.values[sample_ids]

    def clear_rows(self, rows: slice) -> None:
        """Make `rows` missing: no sample, label -1, id -1, zeros in all else."""
        self.labels[rows] = -1
        self.valid[rows] = False
        self.sample_ids[rows] = -1
        self.padded[rows] = 0
        for further in self.fields.values():
            further.stored[rows] = 0

    def poison(self) -> None:
        """Fill the zone with 0xFF, so that reading a released batch shows."""
        self.slots[:] = 0xFF
        self.valid.view(np.uint8)[:] = 0xFF
        self.sample_ids.view(np.uint8)[:] = 0xFF
