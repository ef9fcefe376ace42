"""A contact sheet: what the first batch looks like."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont
from pydantic import Field

from dtsflow.arena.batch import Batch
from dtsflow.config.configurable import configurable
from dtsflow.consumer.consumer import Setting
from dtsflow.errors import ConfigError
from dtsflow.po.normalize import Normalize

_MARGIN = 8
_CAPTION = 18  # pixels below each picture
_SMALLEST = 96  # pixels: a digit of 28 is enlarged so that a person sees it
_QUICK = 2  # of 9: photographs hardly shrink further, and the run waits meanwhile
_PAPER, _INK = (255, 255, 255), (40, 40, 40)


@configurable
class Sheet:
    """Draw the first batch, normalisation undone and labels below, as one PNG.

    Attributes:
        images: Pictures on the sheet at the most.
        columns: Pictures side by side.
        file: Name of the PNG, within the run folder unless absolute; that of a rank
            other than 0 has `.rank1` or so before its ending.
    """

    images: Annotated[int, Field(ge=1)] = 32
    columns: Annotated[int, Field(ge=1)] = 8
    file: str = "sheet.png"

    def open(self, setting: Setting) -> "Drawing":
        """Wait for the first batch.

        Raises:
            ConfigError: The run has no folder and `file` is not absolute, or the set is
                one of records.
        """
        if setting.folder is None and not Path(self.file).is_absolute():
            raise ConfigError(
                f"consumer.file: {self.file!r} has no folder to go to, for this run writes none. "
                "Give an absolute path, or give the run a name."
            )
        if any(phase.pixels is None for phase in setting.phases.values()):
            raise ConfigError(
                "consumer=sheet draws images, and this data set is one of records. Choose another "
                "consumer, such as count or digest."
            )
        if Path(self.file).suffix.lower() != ".png":
            raise ConfigError(f"consumer.file: {self.file!r} must end in .png.")
        path = (setting.folder or Path()) / self.file
        if setting.rank.index:
            path = path.with_stem(f"{path.stem}.rank{setting.rank.index}")
        return Drawing(self, path, setting)


class Drawing:
    """A sheet that is drawn once the first batch arrives."""

    def __init__(self, sheet: Sheet, path: Path, setting: Setting) -> None:
        self._sheet, self._path, self._setting = sheet, path, setting
        self._drawn = False

    def take(self, batch: Batch) -> None:
        """Draw `batch` if it is the first."""
        if not self._drawn:
            self._drawn = True
            batch = batch.on_host()
            rows = np.flatnonzero(batch.valid)[: self._sheet.images]
            setting = self._setting.phases[batch.phase]
            pictures = [picture(batch.images[row], setting.normalize) for row in rows]
            names = setting.class_names
            captions = [_caption(names, int(label)) for label in batch.labels[rows]]
            draw(pictures, captions, self._sheet.columns).save(self._path, compress_level=_QUICK)

    def finish(self, phase: str, epoch: int) -> str:  # noqa: ARG002  # nothing to say
        """Return an empty text: nothing is summed up before the run ends."""
        return ""

    def results(self) -> dict[str, Any]:
        """Return where the sheet is, as `sheet`."""
        return {"sheet": str(self._path)}


def _caption(names: tuple[str, ...], label: int) -> str:
    name = names[label] if 0 <= label < len(names) else str(label)
    return name if name == str(label) else f"{label} {name}"


def picture(pixels: npt.NDArray[Any], normalize: Normalize | None) -> Image.Image:
    """Return one row's pixels (H, W, C) as a picture, with normalisation undone."""
    plain = pixels if normalize is None else normalize.restore(pixels)
    return Image.fromarray(plain[..., 0] if plain.shape[-1] == 1 else np.ascontiguousarray(plain))


def draw(pictures: list[Image.Image], captions: list[str], columns: int) -> Image.Image:
    """Pictures of one size in a grid, each with its caption below."""
    width, height = pictures[0].size
    zoom = max(1, -(-_SMALLEST // max(width, height)))
    wide, high = width * zoom + _MARGIN, height * zoom + _CAPTION + _MARGIN
    columns = min(columns, len(pictures))
    lines = -(-len(pictures) // columns)
    page = Image.new("RGB", (columns * wide + _MARGIN, lines * high + _MARGIN), _PAPER)
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(12)
    for number, (image, caption) in enumerate(zip(pictures, captions, strict=True)):
        left, top = _MARGIN + number % columns * wide, _MARGIN + number // columns * high
        page.paste(
            image.resize((width * zoom, height * zoom), Image.Resampling.NEAREST), (left, top)
        )
        pen.text((left, top + height * zoom + 2), caption, _INK, font)
    return page
