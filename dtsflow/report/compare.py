"""Runs side by side: their configurations, and their figures.

Figures of several runs can be drawn as a picture: one labelled bar for each.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from PIL import Image, ImageDraw, ImageFont
from yaml import YAMLError

from dtsflow.errors import ConfigError
from dtsflow.pipeline.run_folder import REPORT
from dtsflow.report.sweep import SWEEP, read_failure, read_jobs

CONFIG = "config.yaml"
SPEED, WAIT, MEMORY, BAD = "images/s", "wait", "memory", "bad samples"

_OF_THE_FOLDER = ("name", "resume")  # keys that say nothing of what a run does
_LESS_IS_BETTER = (WAIT, MEMORY, BAD, "loss")

Settings = dict[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """One run.

    Attributes:
        folder: Its folder.
        settings: What it was configured to be, by key.
        figures: What came of it, by name; nothing if it has not finished.
        state: Empty if it has; else what became of it.
    """

    folder: Path
    settings: Settings
    figures: dict[str, float]
    state: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs, the best one first, those without the figure in question last.

    Attributes:
        keys: The keys whose values are not the same in all runs.
        figures: Names of the figures that any run has.
        by: The figure that they are ordered by.
        rows: The runs.
    """

    keys: list[str]
    figures: list[str]
    by: str
    rows: list[Row]


def compare(paths: Sequence[Path], by: str = SPEED) -> Comparison:
    """Compare the runs and the jobs of the sweeps in these folders.

    Jobs of sweeps differ in their overrides; beside other runs, in all of the
    configuration.

    Raises:
        ConfigError: A folder is neither, or no run has the figure `by`.
    """
    only_sweeps = all((path / SWEEP).is_file() for path in paths)
    rows = [row for path in paths for row in _rows(path, of_overrides=only_sweeps)]
    figures = list(dict.fromkeys(name for row in rows for name in row.figures))
    if figures and by not in figures:
        raise ConfigError(f"--by {by!r}: no run has that. There is: {', '.join(figures)}.")
    rows.sort(key=lambda row: _rank(row, by))
    return Comparison(differing([row.settings for row in rows]), figures, by, rows)


def settings_of(overrides: Sequence[str]) -> Settings:
    """Return what overrides set, by key.

    A group's option is a value, too.
    """
    pairs = (override.partition("=") for override in overrides)
    return {key.lstrip("+"): value for key, _, value in pairs}


def differing(settings: Sequence[Settings]) -> list[str]:
    """Return the keys that not all have, or not with the same value."""
    keys = dict.fromkeys(key for of_run in settings for key in of_run)
    return [key for key in keys if len({of_run.get(key) for of_run in settings}) > 1]


def less_is_better(figure: str) -> bool:
    """Tell whether a smaller one of these figures is the better one."""
    return figure.endswith(_LESS_IS_BETTER)


def _rank(row: Row, by: str) -> tuple[bool, float]:
    if by not in row.figures:
        return True, 0.0
    figure = row.figures[by]
    return False, figure if less_is_better(by) else -figure


def _rows(path: Path, *, of_overrides: bool) -> list[Row]:
    if not (path / SWEEP).is_file():
        if not (path / CONFIG).is_file():
            raise ConfigError(
                f"{path} is the folder of no run and of no sweep: there is neither {CONFIG} nor "
                f"{SWEEP} in it."
            )
        return [_row(path, _configured(path))]
    rows = []
    for job in read_jobs(path):
        folder = path / str(job.number)
        rows.append(
            _row(folder, settings_of(job.overrides) if of_overrides else _configured(folder))
        )
    return rows


def _row(folder: Path, settings: Settings) -> Row:
    figures = _figures(folder / REPORT)
    if figures:
        return Row(folder, settings, figures, "")
    failure = read_failure(folder)
    return Row(folder, settings, {}, f"failed: {failure}" if failure else "not finished")


def _configured(folder: Path) -> Settings:
    """Return every key of a run's configuration with its value, as text."""
    if not (folder / CONFIG).is_file():
        return {}  # a job that was never begun
    try:
        tree = OmegaConf.to_container(OmegaConf.load(folder / CONFIG))
    except (OSError, ValueError, YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"{folder / CONFIG} cannot be read: {error}.") from error
    flat: Settings = {}
    _flatten(tree, "", flat)
    return {key: value for key, value in flat.items() if key not in _OF_THE_FOLDER}


def _flatten(node: Any, place: str, flat: Settings) -> None:
    if isinstance(node, Mapping) and node:
        for key, value in node.items():
            _flatten(value, f"{place}.{key}" if place else str(key), flat)
    elif isinstance(node, list) and node:
        for number, value in enumerate(node):
            _flatten(value, f"{place}[{number}]", flat)
    else:
        flat[place] = "null" if node is None else str(node)


def _figures(path: Path) -> dict[str, float]:
    """Return the figures of a report.

    None where there is no report.

    Raises:
        ConfigError: It is not a report of a run.
    """
    if not path.is_file():
        return {}
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        speed = report["images_per_s"]
        took = report["images"] / speed if speed else 0.0
        found = {
            SPEED: speed,
            WAIT: report["stages"]["wait"] / took if took else 0.0,
            MEMORY: report["peak_rss_bytes"] - report["rss_before_bytes"],
            **({BAD: report["bad_samples"]} if report["bad_samples"] else {}),
            **_trained(report.get("train")),
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} is no report of a run ({error!r}).") from error
    return {name: float(value) for name, value in found.items() if math.isfinite(value)}


def _trained(train: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the mean loss of the last epoch, and each phase's last evaluation."""
    if not train:
        return {}
    losses = train["losses"]
    found = {"train loss": losses[-1]["loss"]} if losses else {}
    for phase, last in train["last"].items():
        means = {name: mean for name, mean in last.items() if name not in ("phase", "epoch")}
        found |= {f"{phase} {name}": mean for name, mean in means.items()}
    return found


_WIDTH = 960
_MARGIN = 16
_LINE = 26  # pixels from one bar to the next
_BAR = 16
_TEXT = 13
_LABELS = 420  # pixels that labels take at the most
_VALUES = 84  # pixels to the right of the longest bar
_TICKS = 5  # lines of the scale, about
_PAPER, _INK, _FAINT, _GRID = (255, 255, 255), (40, 40, 40), (130, 130, 130), (225, 225, 225)
_COLOUR = (58, 110, 165)


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar; without a figure there is `text` in its place."""

    label: str
    figure: float | None
    text: str


def bar_chart(title: str, bars: Sequence[Bar]) -> Image.Image:
    """Draw the bars below each other, in their order, on one scale from 0."""
    font = ImageFont.load_default(_TEXT)
    labels = [_cut(bar.label, font, _LABELS) for bar in bars]
    left = 2 * _MARGIN + max(round(font.getlength(label)) for label in labels)
    top = _MARGIN + 2 * _LINE
    height = top + len(bars) * _LINE + _MARGIN
    page = Image.new("RGB", (_WIDTH, height), _PAPER)
    pen = ImageDraw.Draw(page)
    large = ImageFont.load_default(_TEXT + 3)
    pen.text((_MARGIN, _MARGIN), _cut(title, large, _WIDTH - 2 * _MARGIN), _INK, large)
    largest = max((bar.figure for bar in bars if bar.figure is not None), default=0.0)
    room = _WIDTH - left - _MARGIN - _VALUES
    scale = room / largest if largest > 0 else 0.0
    for tick in ticks(largest):
        x = left + round(tick * scale)
        pen.line((x, top - 4, x, height - _MARGIN), _GRID)
        pen.text((x, top - 6), f"{tick:,.6g}", _FAINT, font, anchor="ms")
    for number, (bar, label) in enumerate(zip(bars, labels, strict=True)):
        middle = top + number * _LINE + _LINE // 2
        pen.text((left - _MARGIN // 2, middle), label, _INK, font, anchor="rm")
        text, x, ink = bar.text, left + 2, _FAINT
        if bar.figure is not None:
            x = left + max(1, round(bar.figure * scale))
            pen.rectangle((left, middle - _BAR // 2, x, middle + _BAR // 2), _COLOUR)
            x, ink = x + 6, _INK
        pen.text((x, middle), _cut(text, font, _WIDTH - _MARGIN - x), ink, font, anchor="lm")
    return page


def ticks(largest: float) -> list[float]:
    """Round numbers from 0 on, up to `largest`: multiples of 1, 2 or 5 times 10ⁿ."""
    if largest <= 0:
        return []
    rough = largest / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return [number * step for number in range(int(largest / step * 1.000001) + 1)]


def _cut(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: int) -> str:
    """Return as much of the text as fits, from its beginning."""
    text = _ascii(text)
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(f"{text}...") > width:
        text = text[:-1]
    return f"{text}..."


def _ascii(text: str) -> str:
    """Return the text with what the font has no letters for as `?`."""
    return text.encode("ascii", "replace").decode("ascii")
