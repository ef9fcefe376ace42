"""Epochs in which all operations of a phase are the same."""

from collections.abc import Mapping
from dataclasses import dataclass

from dtsflow.po.branch import Branch
from dtsflow.po.chain import BatchOperation
from dtsflow.spec import IMAGES, ImageSpec


@dataclass(frozen=True, slots=True)
class Era:
    """The epochs from `first` on, until the next era begins.

    Attributes:
        first: Its first epoch.
        branches: The chains, by the field that each makes; `images` is the first.
        batch: What mixes the rows of a batch.
    """

    first: int
    branches: Mapping[str, Branch]
    batch: tuple[BatchOperation, ...]

    @property
    def pixels(self) -> ImageSpec:
        """What a row of `images` is."""
        return self.branches[IMAGES].out_spec
