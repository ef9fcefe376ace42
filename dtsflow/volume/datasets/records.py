"""Data sets of records: what a plugin's loader offers, and the set made of it.

Records are bytes that mean something to the plugin's parser. `Records` and its kin are
the interfaces that a plugin meets. `Measured` and `Holding` are optional: they say how
much memory the records take.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PlanError
from dtsflow.spec import ImageSpec
from dtsflow.volume.data_set import Column, Layout, Split, split_of


class RecordReader(Protocol):
    """A reader of records; each worker has one, which may keep files and memory."""

    def read(self, number: int) -> bytes:
        """Return the bytes of record `number`, the same each time.

        Raises:
            VolumeError: It cannot be read; names the file.
        """

    def close(self) -> None:
        """Let go of what is open; nothing is read after that."""


@runtime_checkable
class Records(Protocol):
    """The records that a loader found, in a fixed order; holds nothing open.

    They may have a `split`, one of `Split`: what each rank is given of a global batch.
    Without it that is a share of the rows. They may have `lengths`, as `Measured` says,
    and `held_bytes`, as `Holding` does, from which memory is planned exactly.
    """

    @property
    def buffer(self) -> int | None:
        """Return how many neighbours `reader.shuffle` may mix: 0 none, None any."""

    def __len__(self) -> int:
        """Return the number of records."""

    def where(self, number: int) -> str:
        """Describe in words where a record lies, for messages: file and line, say."""

    def digest(self) -> str:
        """Return a text that differs where the records do, without paths and times.

        A resumed run must find the same text.
        """


@runtime_checkable
class IndexedRecords(Records, Protocol):
    """Records that can be read in any order."""

    def start(self) -> RecordReader:
        """Start a reader for one worker."""


@runtime_checkable
class StreamedRecords(Records, Protocol):
    """Records that come one after the other; `buffer` is a number."""

    def stream(self, first: int) -> Iterator[bytes]:
        """Yield all records from number `first` on, even if it must skip the others.

        It may be a generator, which is closed when no more records are needed. Several
        may work at the same time, one for each lane.

        Raises:
            VolumeError: One cannot be read; names the file.
        """


@runtime_checkable
class Loader(Protocol):
    """A configured origin of records."""

    def records(self) -> IndexedRecords | StreamedRecords:
        """Find out which records there are.

        Raises:
            VolumeError: The files are not what they should be; says which, and what to
                do.
        """


Ints = npt.NDArray[np.int64]


@runtime_checkable
class Measured(Protocol):
    """Records whose greatest lengths are known before one is read."""

    @property
    def lengths(self) -> npt.NDArray[Any]:
        """Return the most bytes that each record has, as whole numbers in order."""


@runtime_checkable
class Holding(Protocol):
    """Records that tell what the loader itself keeps in memory."""

    @property
    def held_bytes(self) -> int:
        """Return the bytes of the listing, and of records that were read already."""


def lengths_of(records: object, count: int, loader: str) -> Ints | None:
    """Return the most bytes of each of `count` records; None: the loader cannot tell.

    Raises:
        PlanError: They are not whole numbers, or not one for each record.
    """
    if not isinstance(records, Measured):
        return None
    lengths = np.asarray(records.lengths)
    if lengths.shape != (count,) or lengths.dtype.kind not in "iu" or (lengths < 0).any():
        raise PlanError(
            f"{loader}: the lengths of its records are {lengths.dtype} of shape "
            f"{lengths.shape}, and must be {count:,} whole numbers of bytes, one for each record."
        )
    return lengths.astype(np.int64, copy=False)


def bytes_held_by(records: object) -> int:
    """Return the bytes that the loader keeps in memory, as far as it says."""
    return int(records.held_bytes) if isinstance(records, Holding) else 0


@dataclass(frozen=True, slots=True, eq=False)
class RecordSet:
    """Records in their loader's order; satisfies DataSet.

    If the loader names a buffer, each run of so many records is a block. `loader` is
    the name of its class; `split` says what ranks are given, `lengths` the most bytes
    of each record, if that is known.

    Raises:
        PlanError: The records describe themselves in an impossible way.
    """

    loader: str
    records: IndexedRecords | StreamedRecords
    split: Split = field(init=False)
    lengths: Ints | None = field(init=False, repr=False)
    counts: Ints = field(init=False, repr=False)
    first_ids: Ints = field(init=False, repr=False)

    def __post_init__(self) -> None:
        number, buffer = len(self.records), self.records.buffer
        if (buffer is not None and buffer < 0) or (buffer is None and self.is_stream):
            raise PlanError(
                f"{self.loader}: its buffer is {buffer}, and must be a number of records, or 0; "
                "None is for records that can be read in any order."
            )
        object.__setattr__(self, "split", split_of(self.records, self.loader))
        object.__setattr__(self, "lengths", lengths_of(self.records, number, self.loader))
        size = buffer or max(1, number)
        counts = np.full(number // size, size, np.int64)
        if rest := number % size:
            counts = np.append(counts, rest)
        for name, values in {"counts": counts, "first_ids": np.cumsum(counts) - counts}.items():
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    @property
    def is_stream(self) -> bool:
        """Tell whether records come one after the other, and in no other order."""
        return not isinstance(self.records, IndexedRecords)

    @property
    def num_blocks(self) -> int:
        """Return the number of buffers that the records fill, or 1."""
        return len(self.counts)

    @property
    def num_samples(self) -> int:
        """Return the number of records."""
        return len(self.records)

    @property
    def held_bytes(self) -> int:
        """Return the bytes that the loader keeps in memory, as far as it says."""
        return bytes_held_by(self.records)

    @property
    def layout(self) -> Layout:
        """Return the layout of records."""
        return "records"

    @property
    def has_blocks(self) -> bool:
        """Return False: there are no blocks on disk."""
        return False

    @property
    def has_checksums(self) -> bool:
        """Return False: only the loader can know of checksums."""
        return False

    @property
    def image(self) -> ImageSpec:
        """Refuse: a record is not an image.

        Raises:
            PlanError: Always.
        """
        raise PlanError(
            f"{self.loader} gives records, and no images: configure decode with a parser "
            "(_target_: dtsflow.decode.Parse) that turns them into fields."
        )

    @property
    def num_classes(self) -> int:
        """Return 0: what a record stands for is in its fields."""
        return 0

    @property
    def class_names(self) -> tuple[str, ...]:
        """Return no name: there are no classes."""
        return ()

    @property
    def names_classes(self) -> bool:
        """Return False: there are no classes."""
        return False

    @property
    def known_labels(self) -> npt.NDArray[np.int32]:
        """Return -1 for each: a record has no label apart from its fields."""
        return np.full(self.num_samples, -1, np.int32)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return no column: a record has fields of its own."""
        return ()

    @property
    def paths(self) -> Sequence[Path]:
        """Return no path: only the loader knows its files."""
        return ()

    def block_of(self, sample_id: int) -> tuple[int, int]:
        """Return the block that holds a record, and the record's index in it.

        Raises:
            IndexError: The set has no such record.
        """
        if not 0 <= sample_id < self.num_samples:
            raise IndexError(f"record {sample_id} of a set with {self.num_samples} records")
        block = int(np.searchsorted(self.first_ids, sample_id, side="right")) - 1
        return block, sample_id - int(self.first_ids[block])

    def where(self, sample_id: int) -> str:
        """Describe where a record lies, in the words of its loader."""
        return self.records.where(sample_id)

    def fingerprint(self) -> str:
        """Digest the number of records, the buffer and the loader's own digest."""
        facts = (self.num_samples, self.records.buffer, self.records.digest())
        return hashlib.sha256(repr(facts).encode()).hexdigest()
