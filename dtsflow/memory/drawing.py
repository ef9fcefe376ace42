"""A memory plan as text that people read."""

from collections.abc import Iterator, Sequence
from typing import Final

from dtsflow.tensor.dtensor import DTensor

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
