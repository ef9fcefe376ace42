"""One lane of an epoch: a slice of C, and in it a run of each source."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dtsflow.reader.merging import Merging
from dtsflow.reader.windows import Windows

Ints = npt.NDArray[np.int64]


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
        """The lane's rows with these numbers, which are consecutive."""
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
        """The windows that these rows of the lane come from, source by source.

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
        """The rows with these numbers, which ascend and lie within the lane."""
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
        """How many of the lane's rows before `row` each source has."""
        turn, inside = divmod(row, self._length) if self._wraps else (0, min(row, self._length))
        counts = self._merging.before(self._first + inside)
        return [
            turn * len(run) + count - before
            for run, count, before in zip(self.runs, counts, self._before, strict=True)
        ]
