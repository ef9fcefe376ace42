"""Rows that later epochs copy: images as they are before the last write.

The policy says for which epochs a decoded sample's rows are made, and where each is
kept.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dtsflow.memory.align import aligned_bytes
from dtsflow.po.native import Rows as PlacedRows
from dtsflow.reader.order import Ints, Rows
from dtsflow.reader.rows import OwnPlaces
from dtsflow.spec import ImageSpec

EPOCHS = 1 << 32  # that a random address tells apart


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """The way a phase reuses what it decoded.

    Attributes:
        factor: K of SDMP: a decoded sample goes through the chain for all epochs that
            are left of its group, those with equal ⌊epoch / K⌋.
        always: CPVS: rows are the same in all epochs, so each is made once.
    """

    factor: int = 1
    always: bool = False

    @property
    def slots(self) -> int:
        """Rows that are kept of each sample; 0: nothing is reused."""
        return 1 if self.always else self.factor - 1

    def group(self, epoch: int) -> int:
        """Return the group of an epoch.

        Rows are kept within one.
        """
        return 0 if self.always else epoch // self.factor

    def slot(self, epoch: int) -> int | None:
        """Return where the rows of an epoch are kept; None: they never are."""
        if self.always:
            return 0
        place = epoch % self.factor
        return place - 1 if place else None

    def ahead(self, epoch: int) -> range:
        """Return the epochs whose rows are kept when a sample of `epoch` is decoded."""
        if self.always:
            return range(epoch, epoch + 1)
        end = (epoch // self.factor + 1) * self.factor
        return range(epoch + 1, min(end, EPOCHS))


Flags = npt.NDArray[np.bool_]

_ALIGN = 64  # bytes: where each image begins, as vector code likes it
_LABEL_BYTES = 4


@dataclass(frozen=True, slots=True)
class RowBudget:
    """The bytes that a phase's rows need on one rank, and how many samples are kept.

    Attributes:
        samples: Samples of the rank.
        slots: Rows of each.
        row_bytes: Bytes of the longest row.
    """

    samples: int
    slots: int
    row_bytes: int

    @property
    def sample_bytes(self) -> int:
        """Return what one sample takes.

        Its rows, what is known of each, and its label.
        """
        return self.slots * (self.row_bytes + 1) + 1 + _LABEL_BYTES

    @property
    def needed(self) -> int:
        """Return the bytes of all samples."""
        return self.samples * self.sample_bytes

    def within(self, room: int) -> int:
        """Return the samples whose rows have room in so many bytes."""
        return max(0, min(self.samples, room // self.sample_bytes))


@dataclass(slots=True)
class RowCount:
    """Rows of a phase that were filled.

    Attributes:
        decoded: By decoding a sample.
        reused: By copying what was kept.
    """

    decoded: int = 0
    reused: int = 0


class RowCache:
    """The rows of some samples of a rank, for the epochs of one group at a time.

    It is a cache: a row that it lacks is made anew, the same to the bit. Rows are
    written by workers in any order, and read in later passes only; no pass reads what
    it kept itself.

    Args:
        reuse: Which epochs' rows are kept.
        places: Numbers the samples.
        capacity: The first so many are kept.
        row_bytes: Bytes of the longest row.
    """

    def __init__(
        self, reuse: CachePolicy, places: OwnPlaces, capacity: int, row_bytes: int
    ) -> None:
        self.reuse = reuse
        self.count = RowCount()
        self._places = places
        self.row_bytes = row_bytes
        self.memory = aligned_bytes(reuse.slots * capacity * row_bytes)
        self._labels = np.full(capacity, -1, np.int32)
        self._is_kept = np.zeros((reuse.slots, capacity), np.bool_)
        self._held: Flags = np.zeros(capacity, np.bool_)  # of the pass, as it began
        self._slot = 0
        self._group: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def begin(self, epoch: int, chain_version: int) -> None:
        """Begin a pass over an epoch; rows of another group or version go."""
        group = self.reuse.group(epoch), chain_version
        if group != self._group:
            self._is_kept[:] = False
            self._group = group
        slot = self.reuse.slot(epoch)
        self._slot = slot or 0
        self._held[:] = False if slot is None else self._is_kept[slot]

    def __len__(self) -> int:
        return self._is_kept.size

    @property
    def is_empty(self) -> bool:
        """Tell whether it has no row of this pass."""
        return not self._held.any()

    @property
    def is_complete(self) -> bool:
        """Tell whether it has, for this pass, the rows of all samples of the rank."""
        return len(self._held) == len(self._places) and bool(self._held.all())

    def numbers(self, rows: Rows) -> Ints:
        """Return the number of each row's sample, -1 where it has no room."""
        found = self._places.of(rows)
        found[found >= len(self._held)] = -1
        return found

    def holds(self, numbers: Ints) -> Flags:
        """Tell whether it has, for this pass, the rows of samples."""
        found = numbers >= 0
        found[found] = self._held[numbers[found]]
        return found

    def missing(self, rows: Rows) -> Rows:
        """Return those of some rows, all valid, that it does not have."""
        return rows.only(np.flatnonzero(~self.holds(self.numbers(rows))))

    def labels(self, numbers: Ints) -> npt.NDArray[np.int32]:
        """Return the labels of samples that it holds."""
        return self._labels[numbers]

    def places(self, numbers: Ints, epoch: int | None = None) -> Ints:
        """Return which store rows are those of samples, in this pass or an epoch."""
        slot = self._slot if epoch is None else self.reuse.slot(epoch)
        assert slot is not None
        return slot * len(self._held) + numbers

    def enter(self, numbers: Ints, labels: npt.NDArray[np.int32], epochs: Sequence[int]) -> None:
        """Say that the rows of samples are written for all of `epochs`."""
        self._labels[numbers] = labels
        for epoch in epochs:
            self._is_kept[self.reuse.slot(epoch), numbers] = True

    def counted(self, *, decoded: int, reused: int) -> None:
        """Count rows of a chunk; several workers may."""
        with self._lock:
            self.count.decoded += decoded
            self.count.reused += reused


@dataclass(frozen=True)
class RowLayout:
    """The layout of one sample's images in a kept row, each at a multiple of 64 bytes.

    Attributes:
        images: What each field of a batch keeps, UINT8 and of one size, by its name.
    """

    images: Mapping[str, ImageSpec]

    @property
    def offsets(self) -> dict[str, int]:
        """Return where each image begins in the row."""
        sizes = {name: self._aligned(spec) for name, spec in self.images.items()}
        ends = np.cumsum([0, *sizes.values()]).tolist()
        return dict(zip(sizes, ends, strict=False))

    def rows(self, name: str, store: "RowCache", places: Ints) -> PlacedRows:
        """Return an image of the rows `places` of a store, for an engine."""
        spec, offset = self.images[name], self.offsets[name]
        height, width = _sides(spec)
        shape = (len(store), height, width, spec.channels)
        strides = (store.row_bytes, width * spec.channels, spec.channels, 1)
        padded: Any = np.ndarray(shape, np.uint8, store.memory, offset, strides)
        offsets = places * store.row_bytes + offset
        return PlacedRows(store.memory, offsets, padded, places, spec.channels)

    @property
    def nbytes(self) -> int:
        """Return what a row occupies."""
        return sum(self._aligned(spec) for spec in self.images.values())

    @staticmethod
    def _aligned(spec: ImageSpec) -> int:
        height, width = _sides(spec)
        return -(-height * width * spec.channels // _ALIGN) * _ALIGN


def _sides(spec: ImageSpec) -> tuple[int, int]:
    assert spec.height is not None  # a chain that keeps rows was checked for it
    assert spec.width is not None
    return spec.height, spec.width
