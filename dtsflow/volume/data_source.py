"""Where a data set comes from, as a configuration names it."""

from pathlib import Path
from typing import Protocol, runtime_checkable

from dtsflow.volume.data_set import DataSet


@runtime_checkable
class Source(Protocol):
    """Where a data set comes from."""

    def prepare(self) -> None:
        """Make what has to exist on disk before planning; usually nothing."""

    def scan(self, cache: Path | None = None) -> DataSet:
        """Read headers and block counts; nothing stays open.

        `cache` is a folder for what takes long to find out.
        """
