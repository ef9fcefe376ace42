"""Progress on a terminal as a bar, elsewhere as one plain line per part."""

import shutil
import sys
import time
from typing import Self

_REFRESH_S = 0.1
_BAR = 30  # characters
_NARROW = 70  # columns: below this the bar is left out


class Progress:
    """The progress of one part of a job, such as an epoch."""

    def __init__(self, title: str, total: int = 0) -> None:
        self._title, self._total = title, total
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
        return f"{self._done:,}/{self._total:,}  {rate:,.0f} images/s{ahead}"

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
