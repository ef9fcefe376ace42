"""The order in which the places of C take samples from the sources of a mix.

Pure arithmetic in whole numbers: any place of an epoch is answered for at once, without
those before it. A source's samples are numbered in the order it delivers them; once it
has delivered all, the numbers go on with its first one again.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PlanError

Ints = npt.NDArray[np.int64]

THOUSAND = 1000  # weights are whole thousandths, so their pattern repeats after so many


@dataclass(frozen=True, slots=True)
class MixSpec:
    """The rules by which several sources are made one.

    Attributes:
        names: What each source is called, in config order.
        blocks: The number of blocks of each.
        weights: The share of each source in thousandths, 1,000 in all; empty: each
            sample of every source comes once.
        samples: Samples of an epoch, with weights only; None: as many as are chosen of
            all sources.
    """

    names: tuple[str, ...]
    blocks: tuple[int, ...]
    weights: tuple[int, ...] = ()
    samples: int | None = None

    def merging(self, sizes: tuple[int, ...]) -> "Merging":
        """Return how sources of so many chosen samples take turns.

        Raises:
            PlanError: A source that has a weight has no samples.
        """
        if not self.weights:
            return InProportion(sizes)
        if 0 in sizes:
            name = self.names[sizes.index(0)]
            raise PlanError(
                f"reader.mix.{name} has a weight, and reader.subset has none of its samples. "
                "Leave it out of the mix, or choose other samples."
            )
        return ByWeight(sizes, self.weights, sum(sizes) if self.samples is None else self.samples)


class Merging(Protocol):
    """The turns that the sources of an epoch take."""

    @property
    def samples(self) -> int:
        """N: places of an epoch."""

    def before(self, place: int) -> tuple[int, ...]:
        """Return how many of the first `place` places each source has; `place` ≤ N."""

    def place(self, source: int, number: int) -> int:
        """Return the place that a source's sample `number` has."""

    def turns(self, first: int, last: int) -> tuple[Ints, Ints]:
        """Return the source at each place in [first, last), and its sample's number."""


@dataclass(frozen=True, slots=True)
class InProportion:
    """Each sample of all sources once, each source spread evenly over the epoch.

    The samples are in the order of the key (2j + 1)/(2n), for sample j of a source of
    n; of equal keys the first source's is first.
    """

    sizes: tuple[int, ...]

    @property
    def samples(self) -> int:
        """N: the samples of all sources."""
        return sum(self.sizes)

    def before(self, place: int) -> tuple[int, ...]:
        """Return how many of the first `place` places each source has."""
        if len(self.sizes) == 1:
            return (place,)
        return tuple(self._before(source, place) for source in range(len(self.sizes)))

    def place(self, source: int, number: int) -> int:
        """Return the place of a sample: how many samples have a smaller key."""
        own = self.sizes[source]
        ahead = (
            self._ahead(source, other, number) // (2 * own)
            for other in range(len(self.sizes))
            if other != source
        )
        return number + sum(ahead)

    def turns(self, first: int, last: int) -> tuple[Ints, Ints]:
        """Return the source at each place in [first, last), and its sample's number."""
        sources = np.empty(last - first, np.int64)
        numbers = np.empty(last - first, np.int64)
        for source, part in enumerate(zip(self.before(first), self.before(last), strict=True)):
            own = np.arange(*part, dtype=np.int64)
            places = own - first
            for other in range(len(self.sizes) if len(own) else 0):
                if other != source:
                    places += self._all_ahead(source, other, *part)
            sources[places], numbers[places] = source, own
        return sources, numbers

    def _before(self, source: int, place: int) -> int:
        own, every, sources = self.sizes[source], self.samples, len(self.sizes)
        # Sample j has the place (j + 1/2)·N/n less 1/2, but for 1/2 at most for each
        # other source: only the samples of about that place are to be looked at.
        low = max(0, (2 * place - sources) * own // (2 * every) - 1)
        high = min(own, (2 * place + sources + 2) * own // (2 * every) + 2)
        return bisect_left(range(own), place, low, high, key=lambda j: self.place(source, j))

    def _ahead(self, source: int, other: int, number: int) -> int:
        """2n times the number of samples of `other` ahead of a sample, before rounding.

        Sample m of `other`, a source of k, is ahead of sample j of a source of n where
        (2m + 1)/(2k) < (2j + 1)/(2n), or ≤ if `other` is the first of the two. That is
        so for ⌊((2j + 1)·k + n)/(2n)⌋ of them, with < for one less before dividing.
        """
        return (2 * number + 1) * self.sizes[other] + self.sizes[source] - (other > source)

    def _all_ahead(self, source: int, other: int, start: int, stop: int) -> Ints:
        """Return the samples of `other` ahead of each of the samples [start, stop)."""
        # Large numbers are Python's own, so that no product has more than 64 bits.
        whole, rest = divmod(self._ahead(source, other, start), 2 * self.sizes[source])
        steps = np.arange(stop - start, dtype=np.int64) * (2 * self.sizes[other])
        found: Ints = whole + (rest + steps) // (2 * self.sizes[source])
        return found


@dataclass(frozen=True, eq=False)
class ByWeight:
    """Of each thousand places every source has as many as its weight.

    Place t has the source at t mod 1,000 of a table. It is filled place by place, each
    with the source that is furthest behind: the one whose share of all places up to and
    with this one exceeds most what it has; of equal ones the first.

    Attributes:
        sizes: Samples of each source; one that runs out starts again.
        weights: Thousandths of each source, 1,000 in all.
        samples: N: places of an epoch.
    """

    sizes: tuple[int, ...]
    weights: tuple[int, ...]
    samples: int

    @cached_property
    def table(self) -> Ints:
        """Return the source at each place of a thousand."""
        found = np.empty(THOUSAND, np.int64)
        has = [0] * len(self.weights)
        for place in range(THOUSAND):
            behind = [
                (place + 1) * weight - THOUSAND * count
                for weight, count in zip(self.weights, has, strict=True)
            ]
            source = behind.index(max(behind))
            found[place] = source
            has[source] += 1
        return found

    def before(self, place: int) -> tuple[int, ...]:
        """Return how many of the first `place` places each source has."""
        thousands, inside = divmod(place, THOUSAND)
        return tuple(
            thousands * weight + int(count)
            for weight, count in zip(self.weights, self._counts[inside], strict=True)
        )

    def place(self, source: int, number: int) -> int:
        """Return the place that a source's sample `number` has."""
        thousands, inside = divmod(number, self.weights[source])
        return thousands * THOUSAND + int(np.flatnonzero(self.table == source)[inside])

    def turns(self, first: int, last: int) -> tuple[Ints, Ints]:
        """Return the source at each place in [first, last), and its sample's number."""
        thousands, inside = np.divmod(np.arange(first, last, dtype=np.int64), THOUSAND)
        sources = self.table[inside]
        weights = np.array(self.weights, np.int64)
        return sources, thousands * weights[sources] + self._counts[inside, sources]

    @cached_property
    def _counts(self) -> Ints:
        """Return how many places each source has ahead of each place of a thousand."""
        taken = self.table[:, None] == np.arange(len(self.weights))
        counts = np.zeros((THOUSAND + 1, len(self.weights)), np.int64)
        np.cumsum(taken, axis=0, out=counts[1:])
        return counts
