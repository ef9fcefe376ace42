"""The options of a pack, and the recipes of the compression levels.

A recipe says what a level does to an image: sizes, quality, arithmetic.
"""

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from dtsflow.errors import PackError
from dtsflow.volume.format.header import LEVELS, SUFFIX
from dtsflow.volume.source.base import SourceFormat
from dtsflow.volume.source.select import Choice
from dtsflow.volume.source.shards import is_pattern

Level = Literal[0, 1, 2, 3]
Box = tuple[int, int, int, int]  # left, top, right, bottom

SUBSAMPLINGS = ("4:4:4", "4:2:2", "4:2:0")
SHORT, LONG = 400, 600  # pixels: upstream's limits
_QUALITY = {1: 90, 2: 90, 3: 80}
_TOP_QUALITY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The steps by which a level above 0 makes an image.

    An image whose short side is over `boundary` is scaled so that it is `short`. Where
    `crops`, the middle is then cut out, at most `short` by `long`. `upstream` computes
    and converts as upstream does, with the same roundings.
    """

    boundary: int
    short: int = SHORT
    long: int = LONG
    crops: bool
    quality: int
    subsampling: str | None = None
    upstream: bool = False

    def scaled(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and height after scaling."""
        side = min(width, height)
        if side <= self.boundary:
            return width, height
        if self.upstream:
            # In doubles, cut off: 399 comes out of some sizes instead of 400.
            scale = self.short / side
            return int(width * scale), int(height * scale)
        return width * self.short // side, height * self.short // side

    def window(self, width: int, height: int) -> Box | None:
        """Return the part that is cut out of a scaled image; None keeps it whole."""
        if not self.crops:
            return None
        widest, highest = (self.long, self.short) if width > height else (self.short, self.long)
        kept_width, kept_height = min(width, widest), min(height, highest)
        if (kept_width, kept_height) == (width, height):
            return None
        left, top = (width - kept_width) // 2, (height - kept_height) // 2
        return left, top, left + kept_width, top + kept_height

    def facts(self) -> dict[str, Any]:
        """Return the recipe as plain values, as it is recorded."""
        return asdict(self)

    @classmethod
    def from_facts(cls, facts: object) -> "Recipe":
        """Return the recipe that `facts` recorded.

        Raises:
            ValueError: It is not a recipe of this version.
        """
        numbers, flags = ("boundary", "short", "long", "quality"), ("crops", "upstream")
        if not isinstance(facts, dict) or set(facts) != {*numbers, *flags, "subsampling"}:
            raise ValueError("no recipe")
        if not all(type(facts[name]) is int and facts[name] > 0 for name in numbers):
            raise ValueError("a recipe with other numbers")
        if not all(type(facts[name]) is bool for name in flags):
            raise ValueError("a recipe with other flags")
        if facts["subsampling"] not in (None, *SUBSAMPLINGS):
            raise ValueError("a recipe with another subsampling")
        return cls(**facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """The storage of images: a level, and what to do otherwise than the level says.

    `short` and `long` are limits in pixels, `quality` is JPEG's 1 to 100, `subsampling`
    one of `SUBSAMPLINGS`. None means the level's own value. `restarts` gives JPEGs
    restart markers, without loss: see `dtsflow.volume.packing.encode`.
    """

    level: Level = 0
    short: int | None = None
    long: int | None = None
    quality: int | None = None
    subsampling: str | None = None
    restarts: bool = False

    def recipe(self, *, upstream: bool = False) -> Recipe | None:
        """Return the recipe of the level with these changes; None at level 0.

        Raises:
            PackError: A value is out of range, or means nothing at this level.
        """
        if self.level not in LEVELS:
            raise PackError(f"level {self.level} does not exist; levels are 0 to {LEVELS[-1]}.")
        self._check_meaning(upstream=upstream)
        if self.level == 0:
            return None
        self._check_ranges()
        short = self.short or SHORT
        return Recipe(
            boundary=short if self.level == 1 else short * 11 // 10,
            short=short,
            long=self.long or short * 3 // 2,
            crops=self.level > 1,
            quality=self.quality or _QUALITY[self.level],
            subsampling=self.subsampling,
            upstream=upstream,
        )

    def _check_meaning(self, *, upstream: bool) -> None:
        if upstream and self.restarts:
            raise PackError("upstream writes no restart markers: leave out restarts, or compat.")
        given = [
            name
            for name in ("short", "long", "quality", "subsampling")
            if getattr(self, name) is not None
        ]
        if not given:
            return
        if upstream:
            why = "upstream's levels are fixed: leave it out, or pack without compat"
        elif self.level == 0:
            why = "level 0 stores files unchanged: choose a level from 1 to 3"
        elif self.level == 1 and "long" in given:
            given, why = ["long"], "level 1 crops nothing: choose level 2 or 3"
        else:
            return
        raise PackError(f"{given[0]} = {getattr(self, given[0])} has no meaning here: {why}.")

    def _check_ranges(self) -> None:
        short = SHORT if self.short is None else self.short
        long = short * 3 // 2 if self.long is None else self.long
        quality = 1 if self.quality is None else self.quality
        if not 1 <= short <= long < 1 << 16:
            raise PackError(
                f"short = {short} and long = {long} are no limits: 1 <= short <= long <= 65535."
            )
        if not 1 <= quality <= _TOP_QUALITY:
            raise PackError(f"quality = {quality} is out of range: 1 to {_TOP_QUALITY}.")
        if self.subsampling not in (None, *SUBSAMPLINGS):
            raise PackError(
                f"subsampling = {self.subsampling} is unknown; use {', '.join(SUBSAMPLINGS)}."
            )


Split = Literal["train", "val", "test"]
Oversize = Literal["reject", "reencode"]

_PACKED = re.compile(r"(_(train|val|test)_lv\d)?(-\d{5}-of-\d{5})?$")  # what a pack appends


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The way images are shared out over blocks and volumes.

    `upstream` writes byte for byte what upstream's exporter writes, and no extension
    index. `min_blocks` is that exporter's minimum at level 0; None means the exporter's
    own rule. `oversize` decides what is done with an image that does not fit a block.
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
    decides how the sources are read where detection cannot. `workers` is the number of
    threads; None means one per processor. It does not change the bytes. `resume` goes
    on with a pack that was killed.
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
        """Return the common start of all files' names, such as `flowers_train_lv0`.

        Raises:
            PackError: `name` leads to another folder, or hides the file; or neither it
                nor the source gives a name.
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
