"""Which sample goes into which block, when all sizes are known."""

import heapq
from collections.abc import Iterable, Sequence

_FILLING = 32  # one part in so many of all bytes is kept back to fill the gaps


def arrange(sizes: Sequence[int], capacity: int, most: int) -> list[list[int]]:
    """Share samples out over as few bins as can be, all with the same mix of sizes.

    The largest go first, each into the emptiest bin, so that every bin gets some of
    every size; the smallest then fill the gaps, first fit. Where that takes more bins
    than the bytes need, plain first-fit decreasing is tried as well and the shorter
    result taken. `sizes` are at most `capacity` each, and no bin takes more than
    `most`. Equal sizes go in the order given. Gives the indexes in each bin, largest
    first.
    """
    fewest = max(-(-sum(sizes) // capacity), -(-len(sizes) // most))
    mixed = _spread(sizes, capacity, most, fewest)
    if len(mixed) == fewest:
        return mixed
    return min(mixed, first_fit_decreasing(sizes, capacity, most), key=len)


def first_fit_decreasing(sizes: Sequence[int], capacity: int, most: int) -> list[list[int]]:
    """Put the largest first, each into the first bin with room for it."""
    bins: list[list[int]] = []
    _first_fit(_decreasing(sizes), sizes, bins, capacity, most)
    return bins


def _spread(sizes: Sequence[int], capacity: int, most: int, fewest: int) -> list[list[int]]:
    bins: list[list[int]] = [[] for _ in range(fewest)]
    emptiest = [(0, number) for number in range(fewest)]  # a heap: bytes in it, which bin
    items = _decreasing(sizes)
    left = sum(sizes)
    kept_back = left // _FILLING
    placed = 0
    for item in items:
        used, number = emptiest[0]
        if left <= kept_back or used + sizes[item] > capacity or len(bins[number]) == most:
            break
        bins[number].append(item)
        heapq.heapreplace(emptiest, (used + sizes[item], number))
        left -= sizes[item]
        placed += 1
    _first_fit(items[placed:], sizes, bins, capacity, most)
    return bins


def _first_fit(
    items: Iterable[int], sizes: Sequence[int], bins: list[list[int]], capacity: int, most: int
) -> None:
    """Put `items` in turn into the first of `bins` with room; add bins at the end."""
    tree = _Rooms(bins, sizes, capacity, most)
    for item in items:
        number = tree.find(sizes[item])
        if number == len(bins):
            bins.append([])
        bins[number].append(item)
        room = tree.room(number) - sizes[item]
        tree.set_room(number, room if len(bins[number]) < most else -1)


def _decreasing(sizes: Sequence[int]) -> list[int]:
    return sorted(range(len(sizes)), key=lambda item: -sizes[item])


class _Rooms:
    """The room of every bin as a tree of maxima: the first fit in log(bins) steps.

    A scan over the bins would take hours for a million images.
    """

    def __init__(
        self, bins: Sequence[Sequence[int]], sizes: Sequence[int], capacity: int, most: int
    ) -> None:
        # Of the bins that are not full by number, all but one are more than half full.
        enough = 2 * sum(sizes) // capacity + len(sizes) // most + 2 + len(bins)
        self._leaves = 1 << (enough - 1).bit_length()
        self._most = [capacity] * (2 * self._leaves)
        for number, members in enumerate(bins):
            room = capacity - sum(sizes[item] for item in members)
            self._most[self._leaves + number] = room if len(members) < most else -1
        for node in range(self._leaves - 1, 0, -1):
            self._most[node] = max(self._most[2 * node], self._most[2 * node + 1])

    def find(self, size: int) -> int:
        assert self._most[1] >= size
        node = 1
        while node < self._leaves:
            node *= 2
            if self._most[node] < size:
                node += 1
        return node - self._leaves

    def room(self, number: int) -> int:
        return self._most[self._leaves + number]

    def set_room(self, number: int, room: int) -> None:
        node = self._leaves + number
        self._most[node] = room
        while node > 1:
            node //= 2
            self._most[node] = max(self._most[2 * node], self._most[2 * node + 1])
