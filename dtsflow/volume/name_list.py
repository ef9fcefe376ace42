"""Many names in little memory."""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import overload

import numpy as np
import numpy.typing as npt


class NameList(Sequence[str]):
    """Names as one run of bytes: a million of them as text objects take 100 MB.

    Any name that a file can have is kept, whether or not it is valid UTF-8.
    """

    def __init__(self, names: Iterable[str]) -> None:
        encoded = [os.fsencode(name) for name in names]
        self._bytes = b"".join(encoded)
        sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
        self._starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> "NameList": ...
    def __getitem__(self, number: int | slice) -> "str | NameList":
        if isinstance(number, slice):
            return self.taken(np.arange(len(self))[number])
        if not 0 <= number < len(self):
            raise IndexError(f"name {number} of {len(self)}")
        return os.fsdecode(self._bytes[self._starts[number] : self._starts[number + 1]])

    def __iter__(self) -> Iterator[str]:
        starts = self._starts.tolist()
        for start, end in pairwise(starts):
            yield os.fsdecode(self._bytes[start:end])

    def taken(self, numbers: npt.NDArray[np.int64]) -> "NameList":
        """The names with these numbers, in their order."""
        return NameList(self[number] for number in numbers.tolist())
