"""`dtsflow report`: compare runs, or the jobs of a sweep."""

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from dtsflow.cli.terminal import printable
from dtsflow.errors import ConfigError
from dtsflow.memory.drawing import human_bytes
from dtsflow.report.compare import MEMORY, SPEED, WAIT, Bar, Comparison, Row, bar_chart, compare

_CELL = 36  # characters: the end of a longer value says more than its beginning
_STATE = 90
_UNITS = {MEMORY: ("MiB", 2.0**20), WAIT: ("%", 0.01)}  # of a plot's scale


def main(words: list[str]) -> int:
    """Show the runs that `words` name in a table; write a CSV or a plot of them."""
    parser = argparse.ArgumentParser(
        prog="dtsflow report",
        description="Compare runs, or the jobs of a sweep: the best first.",
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="runs/NAME")
    parser.add_argument("--by", default=SPEED, metavar="COLUMN", help=f"order ({SPEED})")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="all figures, for a machine")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="the column as bars")
    asked = parser.parse_args(words)
    if asked.plot is not None and asked.plot.suffix.lower() != ".png":
        raise ConfigError(f"--plot: {str(asked.plot)!r} must end in .png.")
    comparison = compare(asked.folders, asked.by)
    print(drawn(comparison))
    if asked.csv is not None:
        _write_csv(comparison, asked.csv)
        print(f"written: {asked.csv}")
    if asked.plot is not None:
        plotted(comparison, " ".join(map(str, asked.folders))).save(asked.plot)
        print(f"written: {asked.plot}")
    return 0


def table(folder: Path) -> str:
    """Return the comparison of one sweep's jobs, as text."""
    return drawn(compare([folder]))


def drawn(comparison: Comparison) -> str:
    """Return the comparison as lines for a person.

    It shows only keys that differ, a line a run.
    """
    figures = comparison.figures
    unfinished = any(row.state for row in comparison.rows)
    head = ["run", *comparison.keys, *figures, *(["state"] if unfinished else [])]
    lines = [head]
    for row in comparison.rows:
        settings = [_cell(row.settings.get(key, "-")) for key in comparison.keys]
        state = [_shortened(printable(row.state))] if unfinished else []
        lines.append(
            [str(row.folder), *settings, *(_figure(row, name) for name in figures), *state]
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    numbers = range(1 + len(comparison.keys), 1 + len(comparison.keys) + len(figures))
    return "\n".join(_aligned(line, widths, numbers) for line in lines)


def _aligned(line: Sequence[str], widths: Sequence[int], numbers: range) -> str:
    cells = [
        cell.rjust(width) if column in numbers else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def plotted(comparison: Comparison, title: str) -> Image.Image:
    """Return the figure that the runs are ordered by, as a bar for each.

    Raises:
        ConfigError: No run can be drawn.
    """
    if not comparison.rows:
        raise ConfigError(f"--plot: {title} has no runs yet, so there is nothing to draw.")
    by = comparison.by
    unit, of_unit = _UNITS.get(by, ("", 1.0))
    bars = []
    for row in comparison.rows:
        settings = (f"{key}={row.settings.get(key, '-')}" for key in comparison.keys)
        text = shown(by, row.figures[by]) if by in row.figures else row.state or "-"
        figure = row.figures[by] / of_unit if by in row.figures else None
        bars.append(Bar("  ".join(settings) or str(row.folder), figure, text))
    return bar_chart(f"{by}{f' ({unit})' * bool(unit)}: {title}", bars)


def _cell(value: str) -> str:
    value = printable(value)
    return value if len(value) <= _CELL else f"…{value[1 - _CELL :]}"


def _shortened(text: str) -> str:
    return text if len(text) <= _STATE else f"{text[: _STATE - 1]}…"


def _figure(row: Row, name: str) -> str:
    return shown(name, row.figures[name]) if name in row.figures else "-"


def shown(name: str, figure: float) -> str:
    """Return a figure as a person reads it."""
    if name == MEMORY:
        return human_bytes(max(0, int(figure)))
    if name == WAIT:
        return f"{figure:.0%}"
    return f"{figure:,.0f}" if figure.is_integer() or name == SPEED else f"{figure:.4g}"


def _write_csv(comparison: Comparison, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["run", *comparison.keys, *comparison.figures, "state"])
        for row in comparison.rows:
            settings = [row.settings.get(key, "") for key in comparison.keys]
            figures = [row.figures.get(name, "") for name in comparison.figures]
            writer.writerow([str(row.folder), *settings, *figures, row.state])
