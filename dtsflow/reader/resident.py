"""The resident store: every block is read once and stays in memory.

The blocks of a data set lie in one memory, with their index and the outcome of each
read. Each block is read by exactly one process of a node.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from dtsflow.errors import BlockError, ClosedError, VolumeError
from dtsflow.memory.align import PAGE, aligned_bytes
from dtsflow.reader.block_io import BlockReader, Verify, checked_index
from dtsflow.reader.order import EpochOrder, Rows
from dtsflow.reader.store import Bytes, Ints, IoThreads, Samples
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.block import BlockIndex
from dtsflow.volume.format.header import BLOCK_BYTES

INDEX_BYTES = 8 + 8 + 4  # offset, size and label of one sample
NOTE_BYTES = 1024  # for what one process could not read

MISSING, WHOLE, DAMAGED, FAILED = range(4)

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The place of each block in a table's memory; -1 for one that is not needed."""

    offsets: Ints
    blocks_bytes: int
    samples: int
    processes: int

    @classmethod
    def of(cls, volumes: VolumeSet, needed: Flags, processes: int = 1) -> "Layout":
        """Return the layout for the `needed` blocks, read by so many processes."""
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
        """Return the bytes of the blocks and the index.

        Beside them the rest is small.
        """
        return self.blocks_bytes + self.samples * INDEX_BYTES

    @property
    def total_bytes(self) -> int:
        """Return the bytes of all that a table keeps."""
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
        """Return where a block lies."""
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
        """Return how many blocks are not there yet."""
        states = self.states[self._needed]
        return int(np.count_nonzero((states == MISSING) | (states == FAILED)))

    @property
    def total(self) -> int:
        """Return how many blocks there will be."""
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
        """Return these samples of blocks that have come; `stands_for` as in Samples."""
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
        """Return which samples in `blocks` lie in a damaged block, and the damage."""
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
    """Return where the parts of a table's memory begin, all but the first."""
    samples = layout.samples
    sizes = (layout.blocks_bytes, 8 * samples, 8 * samples, 4 * samples)
    return list(accumulate([*sizes, layout.processes * NOTE_BYTES]))


POLL_S = 0.002  # nobody wakes a process for what another one has read


def resident_bytes(volumes: VolumeSet, needed: Flags | None = None) -> int:
    """Return the bytes of the `needed` blocks, or all, and the index during a run."""
    return Layout.of(volumes, volumes.counts > 0 if needed is None else needed).planned_bytes


class ResidentStore:
    """All blocks of a data set in one memory, readable as soon as each has arrived.

    Satisfies Store.

    Args:
        table: That memory; other processes may fill a part of it.
        blocks: What this process reads, in this order.
        io_threads: Threads that read.
        verify: How blocks are checked.
        retries: How often a read is tried again.
    """

    def __init__(
        self,
        table: BlockTable,
        blocks: Sequence[int],
        io_threads: int,
        verify: Verify,
        retries: int,
    ) -> None:
        self._shared = _Shared(table, iter(blocks))
        readers = [
            BlockReader(table.volumes, verify, retries, self._shared.pause)
            for _ in range(min(io_threads, len(blocks)))
        ]
        self._io = IoThreads(readers, partial(_read_blocks, self._shared), self._shared.close)

    @property
    def threads(self) -> Sequence[threading.Thread]:
        """Return the IO threads."""
        return self._io.threads

    @property
    def retries(self) -> int:
        """Return how often a read was tried again so far."""
        return self._io.retries

    def begin(self, epoch: EpochOrder, steps: range, timeout_s: float = 300.0) -> None:
        """Begin a pass; there is nothing to prepare."""

    def release(self, rows: Rows) -> None:
        """Do nothing: all stays where it is."""

    def end(self) -> None:
        """End a pass; whoever waits for a block may wait on, it will come."""

    def gather(self, rows: Rows) -> Samples:
        """Return the stored samples of `rows`, all valid.

        It waits until their blocks are there.

        Raises:
            VolumeError: A block could not be read.
            ClosedError: The store was closed while this waited.
        """
        self._shared.wait_for(rows.blocks)
        table = self._shared.table
        return table.samples(rows.ids, rows.blocks, rows.draw_ids(table.volumes.num_samples))

    def progress(self) -> str:
        """Return how far reading has come, for the message of a stalled run."""
        table = self._shared.table
        return f"{table.missing} of {table.total} blocks are not read yet"

    def close(self, *, wait: bool = True) -> None:
        """Stop reading, wake every waiter, and wait until the IO threads are gone."""
        self._io.close(wait=wait)


class _Shared:
    """The state that IO threads write and workers read; does not refer to its store."""

    def __init__(self, table: BlockTable, waiting: Iterator[int]) -> None:
        self.table = table
        self.closed = False
        self.arrived = threading.Condition()
        self._waiting = waiting
        self._is_complete = False
        self._ending = threading.Event()

    def wait_for(self, blocks: Ints) -> None:
        if self._is_complete:
            return
        with self.arrived:
            while not self.table.have_come(blocks):
                if self.closed:
                    raise ClosedError("The run was closed while a worker waited for a block.")
                self.arrived.wait(POLL_S if self.table.is_shared else None)
            if self.table.missing == 0:
                self.table.complete()
                self._is_complete = True

    def next_block(self) -> int | None:
        """Return the block to read next.

        Several threads may ask.
        """
        with self.arrived:
            return None if self.closed else next(self._waiting, None)

    def settle(self, block: int, state: int) -> None:
        """Say what became of a block, once the table has the rest of it."""
        with self.arrived:
            self.table.settle(block, state)
            self.arrived.notify_all()

    def pause(self, seconds: float) -> bool:
        """Wait; True if the store was closed meanwhile."""
        return self._ending.wait(seconds)

    def close(self) -> None:
        with self.arrived:
            self.closed = True
            self._ending.set()
            self.arrived.notify_all()


def _read_blocks(shared: _Shared, reader: BlockReader) -> None:
    """Run one IO thread; after a block that fails it reads the next one."""
    table = shared.table
    try:
        while (block := shared.next_block()) is not None:
            try:
                index = reader.read(block, table.room(block), lambda: shared.closed)
                if index is None:
                    continue
                table.enter(block, index)
                state = WHOLE
            except BlockError as damage:
                table.refuse(block, damage)
                state = DAMAGED
            except Exception as error:  # noqa: BLE001  # whoever needs the block raises it
                with shared.arrived:
                    table.fail(block, error)
                state = FAILED
            shared.settle(block, state)
    finally:
        reader.close()


def node_share(needed: Flags, deliveries: Sequence[Ints], process: int) -> list[int]:
    """Return what process number `process` reads of the `needed` blocks, in this order.

    All processes of a node call it with the same `deliveries`, the blocks that each of
    them needs, in order of need. A block goes to the one that needs it first, in turn
    where several need it as soon; after its own, each reads its part of those that
    other nodes deliver.
    """
    processes = len(deliveries)
    never = processes * len(needed)
    keys = np.full((processes, len(needed)), never, np.int64)
    for number, (key, delivery) in enumerate(zip(keys, deliveries, strict=True)):
        turn = np.arange(len(delivery))
        key[delivery] = turn * processes + (number - turn) % processes
    first = keys.min(axis=0)
    own = np.flatnonzero((keys.argmin(axis=0) == process) & (first < never))
    rest = np.flatnonzero(needed & (first == never))
    return [*own[np.argsort(first[own])].tolist(), *rest[process::processes].tolist()]
