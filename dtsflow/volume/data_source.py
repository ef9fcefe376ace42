"""Where a data set comes from, as a configuration names it."""

from typing import Protocol, runtime_checkable

from dtsflow.volume.volume_set import VolumeSet


@runtime_checkable
class Source(Protocol):
    """Where a data set comes from."""

    def prepare(self) -> None:
        """Make what has to exist on disk before planning; usually nothing."""

    def scan(self) -> VolumeSet:
        """Read headers and block counts; nothing stays open."""
