"""A data set that is already there."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from dtsflow.configurable import configurable
from dtsflow.volume.scan import scan
from dtsflow.volume.volume_set import VolumeSet


@configurable
class Dts:
    """DTS volumes at `path`: one file, a folder of them, or a glob pattern."""

    path: Annotated[str, Field(min_length=1)]

    def prepare(self) -> None:
        """Make the volumes; there is nothing to make."""

    def scan(self, cache: Path | None = None) -> VolumeSet:
        """Read headers and block indexes; nothing stays open.

        `cache` is a folder for what a scan finds out; see `dtsflow.volume.scan`.

        Raises:
            VolumeError: The files are missing, damaged, or no single whole set.
        """
        return scan(self.path, cache)
