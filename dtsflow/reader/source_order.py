"""The samples of one source in the order of one epoch."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Located(NamedTuple):
    """Where samples are stored; see Rows."""

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
        """Where each block of P begins in C; one entry more, the end."""
        return np.concatenate(([0], np.cumsum(self.counts[self.blocks]))).astype(np.int64)

    @property
    def samples(self) -> int:
        """Samples of the source."""
        return int(self.starts[-1])

    def locate(self, positions: Ints) -> Located:
        """Where the samples at these positions of C are stored."""
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
        """The turns of the blocks that hold a sample of C[start:stop]."""
        if start == stop:
            return range(0)
        return range(self._turn_at(start), self._turn_at(stop - 1) + 1)

    def starts_of(self, turns: Ints) -> Ints:
        """Where the blocks of these turns begin in C."""
        rounds, inside = np.divmod(turns, len(self.blocks))
        found: Ints = rounds * self.samples + self.starts[inside]
        return found

    def blocks_of(self, first: int, last: int) -> Ints:
        """The blocks of the turns [first, last), each once, in their order."""
        start, number = first % len(self.blocks), min(last - first, len(self.blocks))
        own = self.blocks[start : start + number]
        if len(own) < number:
            own = np.concatenate((own, self.blocks[: number - len(own)]))
        return self.first_block + own

    @cached_property
    def _firsts(self) -> Ints:
        """The number of each block's first sample."""
        firsts: Ints = np.cumsum(self.counts) - self.counts
        return firsts

    def _turn_at(self, position: int) -> int:
        rounds, inside = divmod(position, self.samples)
        turn = int(np.searchsorted(self.starts, inside, side="right")) - 1
        return rounds * len(self.blocks) + turn
