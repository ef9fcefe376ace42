"""Where runs of bytes lie in a memory that is filled and freed in turn."""

from collections import deque


class Ring:
    """Gives out places in a memory of `capacity` bytes, one behind the other.

    Places may be freed in any order, and are used again in the order they were given.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._taken: deque[list[int]] = deque()  # start, end and 1 if free, oldest first

    def take(self, size: int) -> int | None:
        """Where `size` bytes, at least 1, are free; None while nowhere.

        A size up to the capacity finds room at the latest when all others are freed.
        """
        assert 0 < size <= self._capacity
        start = self._room(size)
        if start is not None:
            self._taken.append([start, start + size, 0])
        return start

    def free(self, start: int) -> None:
        """Say that nobody needs the bytes that `take` gave at `start` any more."""
        for place in self._taken:
            if place[0] == start and not place[2]:
                place[2] = 1
                break
        while self._taken and self._taken[0][2]:
            self._taken.popleft()

    def clear(self) -> None:
        """Free everything."""
        self._taken.clear()

    def _room(self, size: int) -> int | None:
        if not self._taken:
            return 0
        oldest, end = self._taken[0][0], self._taken[-1][1]
        if self._taken[-1][0] < oldest:  # the newest lie in front of the oldest
            return end if end + size <= oldest else None
        if end + size <= self._capacity:
            return end
        return 0 if size <= oldest else None
