"""Blocks of a data set in one memory, with their index and what became of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from dtsflow.errors import BlockError, VolumeError
from dtsflow.memory.align import PAGE, aligned_bytes
from dtsflow.reader.block_reader import Verify, checked_index
from dtsflow.reader.samples import Bytes, Ints, Samples
from dtsflow.volume.block import BlockIndex
from dtsflow.volume.format import BLOCK_BYTES
from dtsflow.volume.volume_set import VolumeSet

INDEX_BYTES = 8 + 8 + 4  # offset, size and label of one sample
NOTE_BYTES = 1024  # for what one process could not read

MISSING, WHOLE, DAMAGED, FAILED = range(4)

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where each block lies in a table's memory; -1 for one that is not needed."""

    offsets: Ints
    blocks_bytes: int
    samples: int
    processes: int

    @classmethod
    def of(cls, volumes: VolumeSet, needed: Flags, processes: int = 1) -> "Layout":
        """The layout for the `needed` blocks, read by so many processes."""
        offsets = np.full(len(volumes.counts), -1, np.int64)
        filled = np.flatnonzero(needed)
        nbytes = np.full(len(filled), BLOCK_BYTES, np.int64)
        if volumes.layout == "pixels":  # each file is a block, as large as it is
            nbytes[:] = [volumes.span(int(block)).nbytes for block in filled]
        room = -(-nbytes // PAGE) * PAGE
        offsets[filled] = np.cumsum(room) - room
        return cls(offsets, int(room.sum()), volumes.num_samples, processes)

    @property
    def planned_bytes(self) -> int:
        """Bytes of the blocks and the index; beside them the rest is nothing."""
        return self.blocks_bytes + self.samples * INDEX_BYTES

    @property
    def total_bytes(self) -> int:
        """Bytes of all that a table keeps."""
        return self.planned_bytes + self.processes * NOTE_BYTES + len(self.offsets)


class BlockTable:
    """The memory of a store that keeps its blocks: several processes may share it.

    Each block is entered by one thread of one process, which then sets the block's
    state. So who finds that state finds the block and its index complete: x86 keeps the
    order of stores, and elsewhere the lock that is taken in between orders them.

    Args:
        volumes: The data set.
        verify: How the blocks are checked as they are read.
        layout: Where each lies.
        memory: `layout.total_bytes` zeros; None: memory of its own.
        process: Which of the processes that share it this is.
    """

    def __init__(
        self,
        volumes: VolumeSet,
        verify: Verify,
        layout: Layout,
        memory: Bytes | None = None,
        process: int = 0,
    ) -> None:
        flat = aligned_bytes(layout.total_bytes) if memory is None else memory
        self.volumes, self._verify, self._layout = volumes, verify, layout
        self._process, self.is_shared = process, layout.processes > 1
        parts = iter(np.split(flat, _cuts(layout)))
        self.memory = next(parts)
        # Zeros in a damaged block, whose samples must not be looked at.
        self._offsets = next(parts).view(np.int64)
        self._sizes = next(parts).view(np.int64)
        self._labels = next(parts).view(np.int32)
        self._notes = next(parts).reshape(layout.processes, NOTE_BYTES)
        self.states = next(parts)
        self._needed = np.flatnonzero(layout.offsets >= 0)
        self._is_whole = False  # nothing will be damaged
        self._reasons: dict[int, str] = {}
        self._errors: dict[int, Exception] = {}

    def room(self, block: int) -> Bytes:
        """Where a block lies."""
        start = int(self._layout.offsets[block])
        return self.memory[start : start + self.volumes.span(block).nbytes]

    def enter(self, block: int, index: BlockIndex) -> None:
        """Enter the samples of a block that lies there; `settle` comes next."""
        entries = self._entries(block)
        self._offsets[entries] = index.offsets + self._layout.offsets[block]
        self._sizes[entries] = index.sizes
        self._labels[entries] = index.labels

    def refuse(self, block: int, damage: BlockError) -> None:
        """Enter that a block is damaged; `settle` comes next."""
        self._labels[self._entries(block)] = -1
        self._reasons[block] = str(damage)

    def fail(self, block: int, error: Exception) -> None:
        """Enter that a block cannot be read, one at a time; `settle` comes next."""
        self._errors[block] = error
        note = self._notes[self._process]
        if not note[0]:  # the first says enough
            text = str(error).encode()[: NOTE_BYTES - 1]
            note[1 : 1 + len(text)] = np.frombuffer(text, np.uint8)
            note[0] = 1

    def settle(self, block: int, state: int) -> None:
        """Say what became of a block; the caller holds a lock that he took after."""
        self.states[block] = state

    def complete(self) -> None:
        """Say that no block is missing, so that damage is not looked for in vain."""
        self._is_whole = not (self.states[self._needed] == DAMAGED).any()

    @property
    def missing(self) -> int:
        """How many blocks are not there yet."""
        states = self.states[self._needed]
        return int(np.count_nonzero((states == MISSING) | (states == FAILED)))

    @property
    def total(self) -> int:
        """How many blocks there will be."""
        return len(self._needed)

    def have_come(self, blocks: Ints) -> bool:
        """Tell whether all these are there, whole or damaged.

        Raises:
            VolumeError: One could not be read.
        """
        states = self.states[blocks]
        if (states == FAILED).any():
            self._raise_for(int(blocks[states == FAILED][0]))
        return bool(states.all())

    def samples(self, ids: Ints, blocks: Ints, stands_for: Ints | None = None) -> Samples:
        """These samples of blocks that have come; `stands_for` as in Samples."""
        return Samples(
            memory=self.memory,
            offsets=self._offsets[ids],
            sizes=self._sizes[ids],
            labels=self._labels[ids],
            ids=ids,
            refused=self._refused(blocks),
            stands_for=stands_for,
        )

    def _entries(self, block: int) -> slice:
        first = int(self.volumes.first_ids[block])
        return slice(first, first + int(self.volumes.counts[block]))

    def _refused(self, blocks: Ints) -> Mapping[int, str]:
        """Which of the samples in `blocks` lie in a damaged block, and the damage."""
        if self._is_whole:
            return {}
        numbers = np.flatnonzero(self.states[blocks] == DAMAGED).tolist()
        return {number: self._reason(int(blocks[number])) for number in numbers}

    def _reason(self, block: int) -> str:
        if block not in self._reasons:
            # Another process found it; the bytes that it found are still there.
            try:
                checked_index(self.volumes, block, self.room(block), self._verify)
                self._reasons[block] = f"block {block} is damaged, as another rank found"
            except BlockError as damage:
                self._reasons[block] = str(damage)
        return self._reasons[block]

    def _raise_for(self, block: int) -> None:
        error = self._errors.get(block)
        if error is not None:
            # A new one for each caller: an error that was raised keeps its frames.
            raise type(error)(*error.args) from error
        notes = [bytes(note[1:]).rstrip(b"\0").decode(errors="replace") for note in self._notes]
        reasons = " ".join(filter(None, notes))
        raise VolumeError(f"Another rank of this node could not read block {block}: {reasons}")


def _cuts(layout: Layout) -> list[int]:
    """Where the parts of a table's memory begin, all but the first."""
    samples = layout.samples
    sizes = (layout.blocks_bytes, 8 * samples, 8 * samples, 4 * samples)
    return list(accumulate([*sizes, layout.processes * NOTE_BYTES]))
