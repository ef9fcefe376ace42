"""The interface of every data set, packed or not.

`DataSet` describes the samples, and `Column` one fact of each image beside its label.
`Source` is the origin of a data set as a configuration names it. `Split` says which
rows of a global batch of records each rank is given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PlanError, SetError
from dtsflow.spec import Field, ImageSpec


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A further field of every sample, known before any is read.

    A batch has the rows of its samples as `batch.NAME`, zeros in a missing row; no
    operation changes them.

    Attributes:
        field: Name, shape of one row and type.
        values: A row for each sample, by sample_id; read-only, of the field's type.

    Raises:
        SetError: The values have another shape.
    """

    field: Field
    values: npt.NDArray[Any]

    def __post_init__(self) -> None:
        values = np.array(self.values, self.field.dtype.numpy, order="C")
        if values.shape != (len(values), *self.field.shape):
            raise SetError(
                f"the column {self.field.name!r} has values of shape {values.shape}, and its rows "
                f"are {self.field.shape}: the first axis is the samples, then come those of a row."
            )
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    def __len__(self) -> int:
        return len(self.values)

    def taken(self, numbers: npt.NDArray[np.int64]) -> "Column":
        """Return the rows with these numbers, in their order."""
        return Column(self.field, self.values[numbers])

    def fact(self) -> bytes:
        """Return all that the column is, for a fingerprint."""
        about = (self.field.name, self.field.shape, self.field.dtype.value)
        return repr(about).encode() + self.values.tobytes()


# Compressed images in blocks, pixels behind one another, images one by one in files, or
# records that a plugin reads.
Layout = Literal["blocks", "pixels", "files", "records"]


class DataSet(Protocol):
    """A whole data set, described; holds nothing open.

    Samples lie in blocks, numbered in the set's order with empty ones included, and a
    sample's id is its index in that order. A set without blocks counts as one block.
    """

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Return the number of samples of each block; read-only."""

    @property
    def first_ids(self) -> npt.NDArray[np.int64]:
        """Return the sample_id of each block's first sample; read-only."""

    @property
    def num_blocks(self) -> int:
        """Return the number of blocks, empty ones included."""

    @property
    def num_samples(self) -> int:
        """Return the number of samples of all blocks."""

    @property
    def layout(self) -> Layout:
        """Return how the samples are stored."""

    @property
    def has_blocks(self) -> bool:
        """Tell whether blocks can be permuted; else only single samples can."""

    @property
    def has_checksums(self) -> bool:
        """Tell whether a checksum covers each byte that is read."""

    @property
    def image(self) -> ImageSpec:
        """Describe one image as decoded; sides are None where images differ."""

    @property
    def num_classes(self) -> int:
        """Return the number of classes, also those without a sample."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Return a name per label; the number where the set has no names."""

    @property
    def names_classes(self) -> bool:
        """Tell whether the set names its classes."""

    @property
    def known_labels(self) -> npt.NDArray[np.int32] | None:
        """Return the label of every sample; None where `read_labels` has to read it."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the facts of each image beside its label; for most sets none."""

    @property
    def paths(self) -> Sequence[Path]:
        """Return the files or folders that make the set, to show them."""

    def block_of(self, sample_id: int) -> tuple[int, int]:
        """Return the block that holds a sample, and the sample's index in it.

        Raises:
            IndexError: The set has no such sample.
        """

    def where(self, sample_id: int) -> str:
        """Describe in words where a sample lies."""

    def fingerprint(self) -> str:
        """Return the SHA-256 of what the set is, without paths and times."""


@runtime_checkable
class Source(Protocol):
    """The origin of a data set."""

    def prepare(self) -> None:
        """Make what has to exist on disk before planning; usually nothing."""

    def scan(self, cache: Path | None = None) -> DataSet:
        """Read headers and block counts; nothing stays open.

        `cache` is a folder for what takes long to find out.
        """


class Split(Enum):
    """The way the rows of a global batch are placed on ranks, in OneFlow's words.

    No order depends on it: a rank always gets rows of the same global batches.
    """

    ROWS = "split(0)"
    """Each rank has its share of the rows."""

    BROADCAST = "broadcast"
    """Each rank has all rows, the same on every rank."""


@runtime_checkable
class Placed(Protocol):
    """Records that say what ranks are given; others are `split(0)`."""

    @property
    def split(self) -> Split | str:
        """Return one of `Split`, or its value."""


def split_of(records: object, loader: str) -> Split:
    """Return the split that the records of `loader` name.

    Raises:
        PlanError: They name a value that is not in `Split`.
    """
    if not isinstance(records, Placed):
        return Split.ROWS
    try:
        return Split(records.split)
    except ValueError as error:
        known = " or ".join(repr(one.value) for one in Split)
        raise PlanError(
            f"{loader}: its records say split={records.split!r}, and it must be {known}."
        ) from error
