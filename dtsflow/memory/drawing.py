"""A memory plan as a text table and as a picture.

The picture is one bar to scale, and a line of text for each region.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final
from xml.sax.saxutils import escape

from dtsflow.memory.region import Region
from dtsflow.tensor.tensor import DTensor

_HEAD: Final = ("region", "name", "shape", "dtype", "offset", "slot bytes", "size")
_NUMBERS: Final = frozenset({"offset", "slot bytes", "size"})
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024


def human_bytes(nbytes: int) -> str:
    """Write a size with the unit that leaves one to four digits before the point."""
    if nbytes < _STEP:
        return f"{nbytes} B"
    value = nbytes / _STEP
    for unit in _UNITS[:-1]:
        if round(value, 1) < _STEP:
            return f"{value:.1f} {unit}"
        value /= _STEP
    return f"{value:.1f} {_UNITS[-1]}"


def draw(tensors: Sequence[DTensor], total_bytes: int) -> str:
    """Draw one line for each tensor, in the order given, and a line with the total.

    A tensor's variants follow it, each on a line that begins with "or".
    """
    rows = [_HEAD, *(row for tensor in tensors for row in _rows(tensor))]
    count = f"{len(tensors)} tensor{'' if len(tensors) == 1 else 's'}"
    rows.append(("total", count, "", "", "", f"{total_bytes:,}", human_bytes(total_bytes)))
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [_line(row, widths) for row in rows]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])


def _rows(tensor: DTensor) -> Iterator[tuple[str, ...]]:
    yield (
        tensor.region.name,
        tensor.name,
        str(tensor.shape),
        tensor.dtype.value,
        f"{tensor.offset:,}",
        f"{tensor.slot_bytes:,}",
        human_bytes(tensor.slot_bytes),
    )
    for form in tensor.variants:
        yield ("", "or", str(form.shape), form.dtype.value, "", "", "")


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell.rjust(width) if title in _NUMBERS else cell.ljust(width)
        for cell, width, title in zip(row, widths, _HEAD, strict=True)
    ]
    return "  ".join(cells).rstrip()


_FAMILIES: Final = {  # by the first letter of a region: what it is, and its colour
    "B": ("batch statistics", "#9c755f"),
    "W": ("weights", "#2f5d9b"),
    "E": ("moving averages", "#86bcb6"),
    "A": ("half-precision weights", "#76a5dc"),
    "G": ("gradients", "#e0701b"),
    "M": ("first moments", "#8cb04c"),
    "V": ("second moments", "#4d7a2b"),
    "N": ("norms", "#d4a6c8"),
    "I": ("input", "#c23b4b"),
    "F": ("features", "#e7b93c"),
    "S": ("scalars and masks", "#79706e"),
    "T": ("temporaries", "#a9a19d"),
    "R": ("results", "#8e5ea2"),
}
# Pixels. A line of text needs _LINE, so the bar is as high as its lines demand.
_LINE: Final = 18.0
_HEIGHT: Final = 540.0
_TOP: Final = 64.0
_BAR: Final = (24.0, 164.0)
_LEADER: Final = (196.0, 206.0)
_WIDTH: Final = 900.0
_NAME, _FAMILY, _SIZE, _SHARE, _OFFSET, _COUNT = 226.0, 400.0, 640.0, 702.0, 812.0, 876.0
_LEAST_SHARE: Final = 0.001  # the least that one decimal of a percentage shows
_FRAMED: Final = 4.0  # a thinner slot would be all frame
_COLUMN_HEADS: Final = ("region", "holds", "size", "share", "offset", "tensors")


def draw_svg(tensors: Sequence[DTensor]) -> str:
    """Draw the tensors of a finished plan, in memory order; returns an SVG document.

    Heights are to scale, from byte 0 at the top. A line gives a region's size, its
    share of the plan, the byte it begins at, and how many tensors it holds; each slot
    has a tooltip with its own facts.
    """
    total = sum(tensor.slot_bytes for tensor in tensors)
    regions = [(region, list(held)) for region, held in groupby(tensors, lambda t: t.region)]
    height = max(_HEIGHT, _LINE * len(regions))
    scale = height / max(1, total)
    middles = [_TOP + scale * _middle(held) for _, held in regions]
    lines = spread(middles, gap=_LINE, first=_TOP + _LINE / 2, last=_TOP + height - _LINE / 2)
    title = f"Memory plan: {len(tensors)} tensors, {total:,} bytes ({human_bytes(total)})"
    parts = [*_frame(title, height), *(_slot(tensor, scale) for tensor in tensors)]
    for (region, held), middle, line in zip(regions, middles, lines, strict=True):
        parts += _label(region, held, total, (middle, line))
    return "\n".join([*parts, "</svg>", ""])


def spread(wanted: Sequence[float], *, gap: float, first: float, last: float) -> list[float]:
    """Move ascending positions apart until they are `gap` from each other.

    All end up between `first` and `last`, which must leave room for them, in their
    order, each no further from its own position than its neighbours force it.
    """
    placed: list[float] = []
    lowest = first
    for place in wanted:
        placed.append(max(place, lowest))
        lowest = placed[-1] + gap
    # Pushed past the end, they are pushed back as one pile.
    ends = (last - gap * after for after in reversed(range(len(placed))))
    return [min(place, end) for place, end in zip(placed, ends, strict=True)]


def _middle(held: Sequence[DTensor]) -> float:
    return (held[0].offset + held[-1].offset + held[-1].slot_bytes) / 2


def _frame(title: str, height: float) -> Iterator[str]:
    left, right = _BAR
    full = _TOP + height + 24
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {full:g}" '
        f'width="{_WIDTH:g}" height="{full:g}" font-family="sans-serif" font-size="12">'
    )
    yield f'<rect width="{_WIDTH:g}" height="{full:g}" fill="#ffffff"/>'
    yield f'<text x="{left:g}" y="26" font-size="16" font-weight="bold">{escape(title)}</text>'
    for column, head in zip(_columns(), _COLUMN_HEADS, strict=True):
        yield _text(column, _TOP - 14, head, "#666666")
    yield (
        f'<rect x="{left:g}" y="{_TOP:g}" width="{right - left:g}" height="{height:g}" '
        'fill="none" stroke="#444444"/>'
    )


def _slot(tensor: DTensor, scale: float) -> str:
    left, right = _BAR
    top, height = _TOP + scale * tensor.offset, scale * tensor.slot_bytes
    frame = ' stroke="#ffffff" stroke-width="0.75"' if height >= _FRAMED else ""
    forms = " or ".join(f"{form.dtype.value}{form.shape}" for form in tensor.forms)
    name = f" {tensor.name}" if tensor.name else ""
    about = f"{tensor.region.name}{name}: {forms}, {tensor.slot_bytes:,} bytes at {tensor.offset:,}"
    return (
        f'<rect x="{left:g}" y="{top:.3f}" width="{right - left:g}" height="{height:.3f}" '
        f'fill="{_colour(tensor.region)}"{frame}><title>{_plain(about)}</title></rect>'
    )


def _label(
    region: Region, held: Sequence[DTensor], total: int, heights: tuple[float, float]
) -> Iterator[str]:
    middle, line = heights
    size = sum(tensor.slot_bytes for tensor in held)
    (_, start), (bend, stop) = _BAR, _LEADER
    yield (
        f'<polyline points="{start:g},{middle:.2f} {bend:g},{line:.2f} {stop:g},{line:.2f}" '
        'fill="none" stroke="#999999" stroke-width="0.75"/>'
    )
    yield (
        f'<rect x="{stop:g}" y="{line - 5:.2f}" width="10" height="10" fill="{_colour(region)}"/>'
    )
    cells = (
        region.name,
        _FAMILIES[region.name[0]][0],
        human_bytes(size),
        _percent(size / total),
        f"{held[0].offset:,}",
        str(len(held)),
    )
    for column, cell in zip(_columns(), cells, strict=True):
        yield _text(column, line + 4, cell, "#111111")


def _columns() -> tuple[tuple[float, str], ...]:
    """Return where each column of text is anchored, and by which end of a text."""
    words = ((_NAME, "start"), (_FAMILY, "start"))
    return *words, *((x, "end") for x in (_SIZE, _SHARE, _OFFSET, _COUNT))


def _text(column: tuple[float, str], y: float, text: str, colour: str) -> str:
    x, anchor = column
    return (
        f'<text x="{x:g}" y="{y:.2f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
    )


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= _LEAST_SHARE else f"< {_LEAST_SHARE:.1%}"


def _colour(region: Region) -> str:
    return _FAMILIES[region.name[0]][1]


def _plain(text: str) -> str:
    """Escape `text`; what cannot be printed, and may not stand in XML, becomes ?."""
    return escape("".join(char if char.isprintable() else "?" for char in text))
