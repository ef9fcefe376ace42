"""A data set made on the spot, for a first run without any data."""

import json
import logging
import tempfile
from pathlib import Path
from typing import Annotated

from pydantic import Field

from dtsflow.configurable import configurable
from dtsflow.errors import PackError, VolumeError
from dtsflow.volume.file import read_header
from dtsflow.volume.manifest import manifest_path
from dtsflow.volume.packing.options import Packing
from dtsflow.volume.packing.pack import pack
from dtsflow.volume.packing.recipe import Encoding, Level
from dtsflow.volume.photos import write_photos
from dtsflow.volume.scan import scan
from dtsflow.volume.volume_set import VolumeSet

log = logging.getLogger(__name__)

_RECIPE = 2  # counts up when the same parameters give other images


@configurable
class Synthetic:
    """`images` made-up photographs of `classes` classes, one volume in folder `path`.

    They are packed at `level`; each level has a volume of its own. The same parameters
    give the same images. Beside the volume lies a small JSON file with its parameters:
    `prepare` makes the volume again only when they change.
    """

    path: Annotated[str, Field(min_length=1)]
    images: Annotated[int, Field(ge=1)] = 512
    classes: Annotated[int, Field(ge=1)] = 10
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] = 0
    level: Level = 0

    @property
    def volume(self) -> Path:
        """What `prepare` makes: `quickstart_train_lv0.dts` in `quickstart-data`."""
        folder = Path(self.path).expanduser()
        return folder / f"{_name(folder)}_train_lv{self.level}.dts"

    def prepare(self) -> None:
        """Make the volume, unless one with the same parameters is there.

        Raises:
            PackError: It cannot be written, or a file that is not ours has its name.
        """
        if self._is_made():
            return
        volume = self.volume
        if volume.exists() and not self._record.exists():
            raise PackError(
                f"{volume} exists and was not made by Synthetic ({self._record.name} is not "
                "beside it). Move it away, or choose another folder as volume.path."
            )
        log.info("making %d photographs of %d classes: %s", self.images, self.classes, volume)
        volume.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{volume.stem}.", dir=volume.parent) as room:
            self._make(Path(room))
        log.info("made %s: %d bytes", volume, volume.stat().st_size)

    def scan(self, cache: Path | None = None) -> VolumeSet:
        """Read headers and block indexes; nothing stays open.

        `cache` is a folder for what a scan finds out; see `dtsflow.volume.scan`.

        Raises:
            VolumeError: `prepare` has not run, or the volume is damaged.
        """
        return scan(self.volume, cache)

    @property
    def _record(self) -> Path:
        return self.volume.with_suffix(".json")

    @property
    def _parameters(self) -> dict[str, int]:
        return {
            "images": self.images,
            "classes": self.classes,
            "seed": self.seed,
            "level": self.level,
            "recipe": _RECIPE,
        }

    def _is_made(self) -> bool:
        try:
            recorded = json.loads(self._record.read_text(encoding="utf-8"))
            crc = read_header(self.volume).crc_code
        except (OSError, ValueError, VolumeError):
            return False
        return bool(recorded == {**self._parameters, "crc": crc})

    def _make(self, room: Path) -> None:
        photos = room / "photos"
        write_photos(photos, images=self.images, classes=self.classes, seed=self.seed)
        encoding = Encoding(level=self.level)
        packing = Packing(split="train", name=_name(self.volume.parent), encoding=encoding)
        packed = pack(photos, room, packing)
        record = {**self._parameters, "crc": read_header(packed.path).crc_code}
        written = room / self._record.name
        written.write_text(json.dumps(record) + "\n", encoding="utf-8")
        # The record first: a volume without one would not be known as ours.
        written.replace(self._record)
        manifest_path(packed.path).replace(manifest_path(self.volume))
        packed.path.replace(self.volume)


def _name(folder: Path) -> str:
    return folder.resolve().name.lower().removesuffix("-data") or "synthetic"
