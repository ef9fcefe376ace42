"""The samples of a rank, numbered so that epochs of one group agree on each."""

from functools import cached_property
from itertools import accumulate

import numpy as np

from dtsflow.reader.order import Ints, Order, Rows


class OwnPlaces:
    """Numbers the samples that the lanes of a rank own, from 0.

    Samples are numbered by their places in the C of their sources, which epochs of a
    group share. One that wraps has its number again; one that a mix delivers again has
    another, as it has other draws.

    Args:
        order: The order of all ranks.
        lanes: The lanes of the rank, which are neighbours.
    """

    def __init__(self, order: Order, lanes: range) -> None:
        self._order = order
        self._lanes = lanes

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    def of(self, rows: Rows) -> Ints:
        """The number of each row's sample; -1 where it is none of the rank's own.

        That is a missing row, or one that an empty lane takes from another rank's.
        """
        positions = rows.positions
        assert positions is not None
        found = np.full(len(rows), -1, np.int64)
        for source, (run, first) in enumerate(zip(self._runs, self._firsts, strict=True)):
            own = (positions >= run.start) & (positions < run.stop)
            if rows.sources is not None:
                own &= rows.sources == source
            found[own] = positions[own] - run.start + first
        return found

    @cached_property
    def _runs(self) -> list[range]:
        """What the lanes own of the C of each source."""
        merging = self._order.merging
        ends = (
            self._order.lane_bounds(self._lanes[0])[0],
            self._order.lane_bounds(self._lanes[-1])[1],
        )
        return [
            range(first, last)
            for first, last in zip(*(merging.before(end) for end in ends), strict=True)
        ]

    @cached_property
    def _firsts(self) -> list[int]:
        return list(accumulate((len(run) for run in self._runs[:-1]), initial=0))
