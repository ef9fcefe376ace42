"""One lane of an epoch: a slice of C, and in it a run of each source.

Each source has its samples in the order of one epoch. A window of a lane is the blocks
of one source that are shuffled together.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dtsflow.reader.interleave import Merging

Ints = npt.NDArray[np.int64]


class Located(NamedTuple):
    """The places where samples are stored; see Rows."""

    ids: Ints
    blocks: Ints
    places: Ints
    repeats: Ints


@dataclass(frozen=True, eq=False)
class SourceOrder:
    """C of one source, over and over: behind its last sample is its first again.

    A turn is one of its blocks where it stands in the order; turns, too, go on behind
    the last one. Blocks and samples are numbered through all sources.

    Attributes:
        counts: Samples of each block of the source.
        first_block: The number of its first block.
        first_id: The number of its first sample.
        blocks: P: its blocks that hold samples, counted from 0, in this epoch's order.
        shuffled: Its samples, counted from 0, in this epoch's order, where single ones
            are permuted; None where they are as the blocks have them.
    """

    counts: Ints
    first_block: int
    first_id: int
    blocks: Ints
    shuffled: Ints | None = None

    @cached_property
    def starts(self) -> Ints:
        """Return where each block of P begins in C; one entry more, the end."""
        return np.concatenate(([0], np.cumsum(self.counts[self.blocks]))).astype(np.int64)

    @property
    def samples(self) -> int:
        """Samples of the source."""
        return int(self.starts[-1])

    def locate(self, positions: Ints) -> Located:
        """Return where the samples at these positions of C are stored."""
        repeats, inside = np.divmod(positions, self.samples)
        if self.shuffled is None:
            turns = np.searchsorted(self.starts, inside, side="right") - 1
            blocks, places = self.blocks[turns], inside - self.starts[turns]
        else:
            numbers = self.shuffled[inside]
            blocks = np.searchsorted(self._firsts + self.counts, numbers, side="right")
            places = numbers - self._firsts[blocks]
        ids = self.first_id + self._firsts[blocks] + places
        return Located(ids, self.first_block + blocks, places, repeats)

    def turns_of(self, start: int, stop: int) -> range:
        """Return the turns of the blocks that hold a sample of C[start:stop]."""
        if start == stop:
            return range(0)
        return range(self._turn_at(start), self._turn_at(stop - 1) + 1)

    def starts_of(self, turns: Ints) -> Ints:
        """Return where the blocks of these turns begin in C."""
        rounds, inside = np.divmod(turns, len(self.blocks))
        found: Ints = rounds * self.samples + self.starts[inside]
        return found

    def blocks_of(self, first: int, last: int) -> Ints:
        """Return the blocks of the turns [first, last), each once, in their order."""
        start, number = first % len(self.blocks), min(last - first, len(self.blocks))
        own = self.blocks[start : start + number]
        if len(own) < number:
            own = np.concatenate((own, self.blocks[: number - len(own)]))
        return self.first_block + own

    @cached_property
    def _firsts(self) -> Ints:
        """Return the number of each block's first sample."""
        firsts: Ints = np.cumsum(self.counts) - self.counts
        return firsts

    def _turn_at(self, position: int) -> int:
        rounds, inside = divmod(position, self.samples)
        turn = int(np.searchsorted(self.starts, inside, side="right")) - 1
        return rounds * len(self.blocks) + turn


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
        """Return the number of each window's first sample; one entry more, the end."""
        if self._whole:
            return np.array([0, len(self)], np.int64)
        inner = self._source.starts_of(self._first_turns[1:-1]) - self._start
        return np.concatenate(([0], inner, [len(self)])).astype(np.int64)

    def window_of(self, number: int) -> int:
        """Return the window of a sample."""
        return int(np.searchsorted(self.cuts, number, side="right")) - 1

    def blocks(self, window: int) -> Ints:
        """Return the blocks of a window, each once, in this epoch's order."""
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
        """Return the first turn of each window; one entry more, the end."""
        turns = self._source.turns_of(self._start, self._stop)
        sizes = window_sizes(len(turns), self._largest)
        return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64) + turns.start

    def _shuffled(self, window: int, permute: Permute) -> Ints:
        """Return the permutation of one window.

        The last one asked for is kept.
        """
        kept, shuffled = self._last  # one tuple, so that a racing thread sees a matching pair
        if kept == window:
            return shuffled
        shuffled = permute(window, int(self.cuts[window + 1] - self.cuts[window]))
        self._last = (window, shuffled)
        return shuffled


@dataclass(frozen=True, slots=True, eq=False)
class Leg:
    """A stretch of a lane's rows of one source that come from one window of blocks.

    Attributes:
        lane: The lane.
        source: The source in the mix.
        first: The number of its first row, counting the lane's rows of this source.
        last: One more than the number of its last.
        row: The number of its first row, counting all of the lane's.
        blocks: Blocks of the data set, in this epoch's order.
    """

    lane: int
    source: int
    first: int
    last: int
    row: int
    blocks: Ints


class LaneRows(NamedTuple):
    """Rows of a lane, one entry each.

    `sources` has the source in the mix, `numbers` which of the lane's rows of this
    source it is, and `positions` the place of its sample in that source's C; -1, and 0
    in the others, where the lane has run out.
    """

    sources: Ints
    numbers: Ints
    positions: Ints


class LaneOrder:
    """One lane of one epoch.

    Args:
        bounds: The slice of C that it owns.
        merging: Which source each place of C has.
        runs: The run of each source in that slice.
        wraps: Whether it begins anew where it has run out; then it must not be empty.
    """

    def __init__(
        self, bounds: tuple[int, int], merging: Merging, runs: Sequence[Windows], *, wraps: bool
    ) -> None:
        self._first, last = bounds
        self._length = last - self._first
        self._merging = merging
        self._before = merging.before(self._first)
        self.runs = runs
        self._wraps = wraps

    def rows(self, numbers: Ints) -> LaneRows:
        """Return the lane's rows with these numbers, which are consecutive."""
        found = LaneRows(*np.zeros((3, len(numbers)), np.int64))
        if not self._wraps:
            present = numbers < self._length
            found.positions[~present] = -1
            for column, values in zip(found, self._stretches(numbers[present]), strict=True):
                column[present] = values
            return found
        turns, inside = np.divmod(numbers, self._length)
        once, back = np.unique(inside, return_inverse=True)
        for column, values in zip(found, self._stretches(once), strict=True):
            column[:] = values[back]
        lengths = np.array([len(run) for run in self.runs], np.int64)
        found.numbers[:] += turns * lengths[found.sources]
        return found

    def legs(self, rows: range, lane: int) -> Iterator[Leg]:
        """Yield the windows that these rows of the lane come from, source by source.

        A lane that wraps comes to its windows again. `lane` is who delivers them.
        """
        ends = zip(self._own_before(rows.start), self._own_before(rows.stop), strict=True)
        for source, (first, last) in enumerate(ends):
            if first < last:
                yield from self._legs_of(source, first, last, lane)

    def _legs_of(self, source: int, first: int, last: int, lane: int) -> Iterator[Leg]:
        run = self.runs[source]
        turn, inside = divmod(first, len(run))
        window = run.window_of(inside)
        while first < last:
            end = min(last, turn * len(run) + int(run.cuts[window + 1]))
            number = self._before[source] + first - turn * len(run)
            place = self._merging.place(source, number)
            row = turn * self._length + place - self._first
            yield Leg(lane, source, first, end, row, run.blocks(window))
            first, window = end, window + 1
            if window + 1 == len(run.cuts):
                turn, window = turn + 1, 0

    def _stretches(self, numbers: Ints) -> LaneRows:
        """Return the rows with these numbers, which ascend and lie within the lane."""
        found = LaneRows(*np.zeros((3, len(numbers)), np.int64))
        edges = (np.flatnonzero(np.diff(numbers) != 1) + 1).tolist()
        for start, stop in zip([0, *edges], [*edges, len(numbers)], strict=True):
            if start < stop:
                places = self._first + int(numbers[start]), self._first + int(numbers[stop - 1]) + 1
                found.sources[start:stop], found.numbers[start:stop] = self._merging.turns(*places)
        for source, run in enumerate(self.runs):
            own = np.flatnonzero(found.sources == source)
            found.numbers[own] -= self._before[source]
            found.positions[own] = run.positions(found.numbers[own])
        return found

    def _own_before(self, row: int) -> list[int]:
        """Return how many of the lane's rows before `row` each source has."""
        turn, inside = divmod(row, self._length) if self._wraps else (0, min(row, self._length))
        counts = self._merging.before(self._first + inside)
        return [
            turn * len(run) + count - before
            for run, count, before in zip(self.runs, counts, self._before, strict=True)
        ]
