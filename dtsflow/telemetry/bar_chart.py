"""Figures of several runs as a picture: one labelled bar for each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw, ImageFont

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
    """As much of the text as fits, from its beginning."""
    text = _ascii(text)
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(f"{text}...") > width:
        text = text[:-1]
    return f"{text}..."


def _ascii(text: str) -> str:
    """The text with what the font has no letters for as `?`."""
    return text.encode("ascii", "replace").decode("ascii")
