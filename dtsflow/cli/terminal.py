"""The command's words on a terminal: progress, numbers, names and exit statuses.

Progress is a bar on a terminal, elsewhere one plain line per part. Names from files are
printed so that they cannot control the terminal.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

_REFRESH_S = 0.1
_BAR = 30  # characters
_NARROW = 70  # columns: below this the bar is left out


class Progress:
    """The progress of one part of a job, such as an epoch; `unit` is what it counts."""

    def __init__(self, title: str, total: int = 0, *, unit: str = "images") -> None:
        self._title, self._total, self._unit = title, total, unit
        self._done = self._images = 0
        self._began = self._shown = time.perf_counter()
        self._terminal = sys.stdout is not None and sys.stdout.isatty()

    def show(self, done: int, images: int, total: int | None = None) -> None:
        """Say that `done` of the total are done, which brought `images` more images."""
        self._done = done
        self._images += images
        self._total = self._total if total is None else total
        now = time.perf_counter()
        if self._terminal and now - self._shown >= _REFRESH_S:
            self._shown = now
            self._draw()

    def _line(self) -> str:
        elapsed = time.perf_counter() - self._began
        rate = self._images / elapsed if elapsed > 0 else 0.0
        left = (self._total - self._done) * elapsed / max(1, self._done)
        ahead = f", {left:.0f} s left" if self._done < self._total else f", {elapsed:.1f} s"
        return f"{self._done:,}/{self._total:,}  {rate:,.0f} {self._unit}/s{ahead}"

    def _draw(self) -> None:
        columns = shutil.get_terminal_size().columns
        full = round(_BAR * self._done / max(1, self._total))
        bar = "█" * full + "░" * (_BAR - full) + " " if columns >= _NARROW else ""
        line = f"{self._title}  {bar}{self._line()}"[: columns - 1]
        print(f"\r\x1b[2K{line}", end="", flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._terminal:
            self._draw()
            print()
        elif error is None:
            print(f"{self._title}: {self._line()}", flush=True)


class PartProgress:
    """The progress of a job of several parts, one after the other, each on its line.

    With `quiet` nothing is shown.
    """

    def __init__(self, *, quiet: bool = False, unit: str = "images") -> None:
        self._quiet, self._unit = quiet, unit
        self._part = ""
        self._progress: Progress | None = None
        self._done = 0

    def show(self, part: str, done: int, total: int) -> None:
        """Say that `done` of `total` are done in `part`, the first time or again."""
        if self._quiet:
            return
        if self._progress is None or part != self._part:
            self._end(None)
            self._part, self._done = part, 0
            self._progress = Progress(part, total, unit=self._unit)
        with self._unwatched():
            self._progress.show(done, done - self._done, total)
        self._done = done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        if self._progress is not None:
            with self._unwatched():
                self._progress.__exit__(None, error, None)
            self._progress = None

    @contextmanager
    def _unwatched(self) -> Iterator[None]:
        """Go on with the job where nobody reads what it says, as after `| head`."""
        try:
            yield
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def counted(number: int, what: str) -> str:
    """`1 block`, `2 blocks`, `3 classes`; `what` is the singular."""
    if number == 1:
        return f"1 {what}"
    return f"{number:,} {what}{'es' if what.endswith('s') else 's'}"


def printable(name: str) -> str:
    """Return the name with control characters, and bytes not text, as escapes."""
    return "".join(
        char
        if char.isprintable()
        else char.encode("unicode_escape", "surrogatepass").decode("ascii")
        for char in name
    )


FAILED = 1
WRONG_USE = 2  # as argparse ends
SIGNALLED = 128  # plus the signal's number, as a shell reports it
INTERRUPTED = 130  # by SIGINT
