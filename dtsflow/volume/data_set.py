"""What every data set says of itself, whether it is packed or not."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from dtsflow.spec import ImageSpec
from dtsflow.volume.columns import Column

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
        """Samples of each block; read-only."""

    @property
    def first_ids(self) -> npt.NDArray[np.int64]:
        """The sample_id of each block's first sample; read-only."""

    @property
    def num_blocks(self) -> int:
        """Blocks, empty ones included."""

    @property
    def num_samples(self) -> int:
        """Samples of all blocks."""

    @property
    def layout(self) -> Layout:
        """How the samples are stored."""

    @property
    def has_blocks(self) -> bool:
        """Whether blocks can be permuted; else only single samples can."""

    @property
    def has_checksums(self) -> bool:
        """Whether a checksum covers each byte that is read."""

    @property
    def image(self) -> ImageSpec:
        """One image as it will be decoded; sides are None where images differ."""

    @property
    def num_classes(self) -> int:
        """Classes, also those without a sample."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """A name per label; the number where the set has no names."""

    @property
    def names_classes(self) -> bool:
        """Whether the set says what its classes are called."""

    @property
    def known_labels(self) -> npt.NDArray[np.int32] | None:
        """The label of every sample; None where it takes reading, see `read_labels`."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """What is known of each image beside its label; for most sets nothing."""

    @property
    def paths(self) -> Sequence[Path]:
        """The files or folders that make the set, to show them."""

    def block_of(self, sample_id: int) -> tuple[int, int]:
        """The block that holds a sample, and the sample's index in it.

        Raises:
            IndexError: The set has no such sample.
        """

    def where(self, sample_id: int) -> str:
        """A sample's place in words."""

    def fingerprint(self) -> str:
        """SHA-256 over what the set is; paths and times have no part in it."""
