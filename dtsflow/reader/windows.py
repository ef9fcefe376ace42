"""The windows of a lane: blocks of one source that are shuffled together."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dtsflow.reader.source_order import SourceOrder

Ints = npt.NDArray[np.int64]

Permute = Callable[[int, int], Ints]
"""The permutation of a window: of its number, and of the number of its samples."""


def window_sizes(blocks: int, largest: int) -> list[int]:
    """Cut `blocks` into 1, 2, 4, … up to `largest`: a first batch needs one block."""
    sizes: list[int] = []
    size = 1
    while blocks:
        sizes.append(min(size, blocks))
        blocks -= sizes[-1]
        size = min(2 * size, largest)
    return sizes


class Windows:
    """A run of one source's samples, C[start:stop], cut into windows.

    Samples of the run are numbered from 0, in the order that it delivers them.

    Args:
        source: The source.
        start: Where the run begins in its C.
        stop: Where it ends.
        largest: Blocks of a full window.
        permute: Permutes the samples of each window; None leaves them as they are.
        whole: Whether all of the run is one window, wherever its blocks end.
    """

    def __init__(  # what a run is, and how it is cut
        self,
        source: SourceOrder,
        start: int,
        stop: int,
        largest: int,
        permute: Permute | None,
        *,
        whole: bool = False,
    ) -> None:
        self._source, self._start, self._stop = source, start, stop
        self._largest = largest
        self._permute = permute
        self._whole = whole
        self._last: tuple[int, Ints] = (-1, np.empty(0, np.int64))

    def __len__(self) -> int:
        return self._stop - self._start

    @cached_property
    def cuts(self) -> Ints:
        """The number of each window's first sample; one entry more, the end."""
        if self._whole:
            return np.array([0, len(self)], np.int64)
        inner = self._source.starts_of(self._first_turns[1:-1]) - self._start
        return np.concatenate(([0], inner, [len(self)])).astype(np.int64)

    def window_of(self, number: int) -> int:
        """The window of a sample."""
        return int(np.searchsorted(self.cuts, number, side="right")) - 1

    def blocks(self, window: int) -> Ints:
        """The blocks of a window, each once, in this epoch's order."""
        first, last = self._first_turns[window : window + 2].tolist()
        return self._source.blocks_of(first, last)

    def positions(self, numbers: Ints) -> Ints:
        """Positions in C of the samples with these numbers, which ascend."""
        if self._permute is None:
            return self._start + numbers
        found = np.empty(len(numbers), np.int64)
        windows = np.searchsorted(self.cuts, numbers, side="right") - 1
        edges = np.flatnonzero(np.diff(windows)) + 1
        for part in np.split(np.arange(len(numbers)), edges):
            if len(part):
                window = int(windows[part[0]])
                first = int(self.cuts[window])
                inside = numbers[part] - first
                found[part] = self._start + first + self._shuffled(window, self._permute)[inside]
        return found

    @cached_property
    def _first_turns(self) -> Ints:
        """The first turn of each window; one entry more, the end."""
        turns = self._source.turns_of(self._start, self._stop)
        sizes = window_sizes(len(turns), self._largest)
        return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64) + turns.start

    def _shuffled(self, window: int, permute: Permute) -> Ints:
        """The permutation of one window; the last one asked for is kept."""
        kept, shuffled = self._last  # one tuple, so that a racing thread sees a matching pair
        if kept == window:
            return shuffled
        shuffled = permute(window, int(self.cuts[window + 1] - self.cuts[window]))
        self._last = (window, shuffled)
        return shuffled
