"""A pack that is worked out: only the writing is left."""

from dataclasses import dataclass
from pathlib import Path

from dtsflow.volume.packing.gather import Gathered
from dtsflow.volume.packing.options import Packing
from dtsflow.volume.packing.prepare import Preparer
from dtsflow.volume.packing.shares import Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is packed, how, and where it goes; `stem` begins all file names."""

    packing: Packing
    gathered: Gathered
    shares: tuple[Share, ...]
    preparer: Preparer
    folder: Path
    stem: str

    @property
    def hidden(self) -> Path:
        """The folder where everything lies until all of it is written."""
        return self.folder / f".{self.stem}.part"
