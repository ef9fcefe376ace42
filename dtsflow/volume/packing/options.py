"""What a pack is asked to do."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dtsflow.errors import PackError
from dtsflow.volume.format import SUFFIX
from dtsflow.volume.packing.recipe import Encoding
from dtsflow.volume.source.choice import Choice
from dtsflow.volume.source.part_files import is_pattern
from dtsflow.volume.source.source_format import SourceFormat

Split = Literal["train", "val", "test"]
Oversize = Literal["reject", "reencode"]

_PACKED = re.compile(r"(_(train|val|test)_lv\d)?(-\d{5}-of-\d{5})?$")  # what a pack appends


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How images are shared out over blocks and volumes.

    `upstream` writes byte for byte what upstream's exporter writes, and no extension
    index. `min_blocks` is that exporter's minimum at level 0; None is its own rule.
    `oversize` says what becomes of an image that does not fit a block.
    """

    volumes: int = 1
    oversize: Oversize = "reject"
    upstream: bool = False
    min_blocks: int | None = None

    def check(self) -> None:
        """Raise PackError for numbers out of range, and for what upstream cannot do."""
        if self.volumes < 1 or (self.min_blocks is not None and self.min_blocks < 1):
            raise PackError(
                f"volumes = {self.volumes} and min-blocks = {self.min_blocks}: both start at 1."
            )
        if self.min_blocks is not None and not self.upstream:
            raise PackError("min-blocks is a number of upstream's packer: add compat upstream.")
        if self.upstream and (self.volumes > 1 or self.oversize != "reject"):
            raise PackError(
                "upstream writes one volume and encodes nothing twice: leave out volumes and "
                "oversize, or compat upstream."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """All options of a pack; the defaults are the command's.

    `name` begins the file names; None takes the source's, in lower case. `source`
    says how the sources are read, where their look does not.
    `workers` is a number of threads, None one per processor: they have no part in the
    bytes. `resume` goes on with a pack that was killed.
    """

    split: Split
    name: str | None = None
    encoding: Encoding = field(default_factory=Encoding)
    choice: Choice = field(default_factory=Choice)
    source: SourceFormat = field(default_factory=SourceFormat)
    layout: Layout = field(default_factory=Layout)
    workers: int | None = None
    resume: bool = False

    def stem(self, source: Path) -> str:
        """What the names of all files begin with, such as `flowers_train_lv0`.

        Raises:
            PackError: `name` leads to another folder, or hides the file, or neither it
                nor the source says any.
        """
        return f"{self._name(source)}_{self.split}_lv{self.encoding.level}"

    def _name(self, source: Path) -> str:
        if self.name is not None:
            if not self.name or self.name.startswith(".") or Path(self.name).name != self.name:
                raise PackError(f"{self.name!r} cannot begin a file name; give letters and digits.")
            return self.name
        place = source.resolve()
        names_several = is_pattern(Path(place.name)) and not place.exists()
        if place.name in {"train", "val", "test"} or names_several:
            place = place.parent
        name = place.name if place.is_dir() else place.name.lstrip(".").split(".")[0]
        if place.suffix == SUFFIX:
            name = _PACKED.sub("", name)
        name = name.lstrip(".").lower()  # a hidden volume would not be found again
        if not name:
            raise PackError(f"{source} has no name that volumes could have: give one (name).")
        return name
