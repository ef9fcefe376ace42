"""First-fit decreasing: which sample goes into which block."""

from collections.abc import Sequence


def first_fit_decreasing(sizes: Sequence[int], capacity: int, most: int) -> list[list[int]]:
    """Put the largest first, each into the first bin with room for it.

    `sizes` are at most `capacity` each, and no bin takes more than `most`. Equal sizes
    go in the order given. Gives the indexes in each bin, in the order they went in.
    """
    tree = _FirstFit(_enough_bins(sizes, capacity, most), capacity)
    bins: list[list[int]] = []
    for item in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        number = tree.find(sizes[item])
        if number == len(bins):
            bins.append([])
        bins[number].append(item)
        room = tree.room(number) - sizes[item]
        tree.set_room(number, room if len(bins[number]) < most else -1)
    return bins


def _enough_bins(sizes: Sequence[int], capacity: int, most: int) -> int:
    # Of the bins that are not full by number, all but one are more than half full.
    return 2 * sum(sizes) // capacity + len(sizes) // most + 2


class _FirstFit:
    """The room of every bin as a tree of maxima: the first fit in log(bins) steps.

    A scan over the bins would take hours for a million images.
    """

    def __init__(self, bins: int, capacity: int) -> None:
        self._leaves = 1 << (bins - 1).bit_length()
        self._most = [capacity] * (2 * self._leaves)

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
