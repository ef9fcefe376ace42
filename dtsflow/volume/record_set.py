"""A data set of records, which a plugin's loader lists and its parser understands."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PlanError
from dtsflow.spec import ImageSpec
from dtsflow.volume.columns import Column
from dtsflow.volume.data_set import Layout
from dtsflow.volume.record_lengths import bytes_held_by, lengths_of
from dtsflow.volume.records import IndexedRecords, StreamedRecords
from dtsflow.volume.split import Split, split_of

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RecordSet:
    """Records in their loader's order; satisfies DataSet.

    Where the loader names a buffer, as many neighbours are a block of their own.
    `loader` is the name of its class; `split` says what ranks are given, `lengths`
    the most bytes of each record, if that is known.

    Raises:
        PlanError: The records say of themselves what cannot be.
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
        """Whether records come one after the other, and in no other order."""
        return not isinstance(self.records, IndexedRecords)

    @property
    def num_blocks(self) -> int:
        """Buffers that the records fill, or one."""
        return len(self.counts)

    @property
    def num_samples(self) -> int:
        """All records."""
        return len(self.records)

    @property
    def held_bytes(self) -> int:
        """Bytes that the loader keeps in memory, as far as it says."""
        return bytes_held_by(self.records)

    @property
    def layout(self) -> Layout:
        """Records."""
        return "records"

    @property
    def has_blocks(self) -> bool:
        """There are none on disk."""
        return False

    @property
    def has_checksums(self) -> bool:
        """Only the loader knows."""
        return False

    @property
    def image(self) -> ImageSpec:
        """There is none.

        Raises:
            PlanError: Always.
        """
        raise PlanError(
            f"{self.loader} gives records, and no images: configure decode with a parser "
            "(_target_: dtsflow.decode.Parse) that turns them into fields."
        )

    @property
    def num_classes(self) -> int:
        """None: what a record stands for is in its fields."""
        return 0

    @property
    def class_names(self) -> tuple[str, ...]:
        """There are no classes."""
        return ()

    @property
    def names_classes(self) -> bool:
        """There are no classes."""
        return False

    @property
    def known_labels(self) -> npt.NDArray[np.int32]:
        """-1 for each: a record has no label apart from its fields."""
        return np.full(self.num_samples, -1, np.int32)

    @property
    def columns(self) -> tuple[Column, ...]:
        """None: a record has fields of its own."""
        return ()

    @property
    def paths(self) -> Sequence[Path]:
        """None: only the loader knows."""
        return ()

    def block_of(self, sample_id: int) -> tuple[int, int]:
        """The block that holds a record, and the record's index in it.

        Raises:
            IndexError: The set has no such record.
        """
        if not 0 <= sample_id < self.num_samples:
            raise IndexError(f"record {sample_id} of a set with {self.num_samples} records")
        block = int(np.searchsorted(self.first_ids, sample_id, side="right")) - 1
        return block, sample_id - int(self.first_ids[block])

    def where(self, sample_id: int) -> str:
        """A record's place as the loader says it."""
        return self.records.where(sample_id)

    def fingerprint(self) -> str:
        """SHA-256 over the number of records, the buffer, and what the loader says."""
        facts = (self.num_samples, self.records.buffer, self.records.digest())
        return hashlib.sha256(repr(facts).encode()).hexdigest()
