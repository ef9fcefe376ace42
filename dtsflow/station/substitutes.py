"""Good samples in the place of bad ones: which come into question, in which order."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dtsflow.errors import BlockError, ClosedError
from dtsflow.reader.samples import Ints, Samples
from dtsflow.reader.selection import Selection
from dtsflow.reader.singles import Singles, singles_of
from dtsflow.volume.data_set import DataSet


class Substitutes:
    """Candidates for the place of a bad sample; the workers of a run share it.

    It remembers samples that are bad whatever is drawn, and whole damaged blocks, so
    that nobody reads them again; what is found does not depend on that. With a
    `selection` no other sample comes into question.
    """

    def __init__(self, volumes: DataSet, selection: Selection | None = None) -> None:
        self._volumes = volumes
        self._selection = selection
        # Of each block that was looked into, which samples are hopeless. Threads write
        # nothing but True, so none needs to wait for another.
        self._hopeless: dict[int, npt.NDArray[np.bool_]] = {}

    def instead_of(
        self, block: int, place: int, *, is_damaged: bool, stop: Callable[[], bool]
    ) -> Iterator[Samples]:
        """All other samples one by one, those to be preferred first.

        That is the rest of the bad sample's block, in a circle from its place on; then
        the blocks after it, in a circle through the volumes, each from its first sample
        on. Of damaged blocks there is none; `is_damaged` says that its own is one.

        Raises:
            VolumeError: A block cannot be read.
            ClosedError: `stop` said so.
        """
        if is_damaged:
            self._give_up_block(block)
        else:
            self._singles.trust(block)
        blocks = self._volumes.num_blocks
        yield from self._of_block(block, place + 1, stop, but=place)
        for after in range(1, blocks):
            yield from self._of_block((block + after) % blocks, 0, stop)

    def give_up(self, sample_id: int) -> None:
        """Never again offer a sample, for it is bad whatever is drawn."""
        block, place = self._volumes.block_of(sample_id)
        self._flags(block)[place] = True

    @property
    def whence(self) -> str:
        """What they are chosen from, in words."""
        return "the data set" if self._selection is None else "reader.subset"

    def are_all_in(self, block: int) -> bool:
        """Whether no other block has a sample that is read."""
        chosen = self._volumes if self._selection is None else self._selection
        return np.count_nonzero(chosen.counts) == 1 and bool(chosen.counts[block])

    @cached_property
    def _singles(self) -> Singles:
        return singles_of(self._volumes)

    def _of_block(
        self, block: int, first: int, stop: Callable[[], bool], but: int = -1
    ) -> Iterator[Samples]:
        places = self._places(block)
        start = bisect_left(places, first)
        # One by one: a set without blocks may have millions, and the next is good.
        for turn in range(len(places)):
            place = int(places[(start + turn) % len(places)])
            if place == but or self._is_hopeless(block, place):
                continue
            if stop():
                raise ClosedError("The pass ended while a substitute was looked for.")
            try:
                sample = self._singles.read(block, place, stop=stop)
            except BlockError:
                self._give_up_block(block)
                return
            yield sample

    def _places(self, block: int) -> Ints | range:
        if self._selection is not None:
            return self._selection.places(block)
        return range(int(self._volumes.counts[block]))

    def _is_hopeless(self, block: int, place: int) -> bool:
        return block in self._hopeless and bool(self._hopeless[block][place])

    def _flags(self, block: int) -> npt.NDArray[np.bool_]:
        fresh = np.zeros(int(self._volumes.counts[block]), np.bool_)
        return self._hopeless.setdefault(block, fresh)

    def _give_up_block(self, block: int) -> None:
        self._flags(block)[:] = True
