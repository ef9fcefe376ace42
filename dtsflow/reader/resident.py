"""The resident store: every block is read once and stays in memory."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from dtsflow.errors import BlockError, ClosedError
from dtsflow.memory.align import PAGE, aligned_bytes
from dtsflow.reader.block_reader import BlockReader, Verify
from dtsflow.reader.io_threads import IoThreads
from dtsflow.reader.order import EpochOrder, Ints, Rows
from dtsflow.reader.samples import Samples
from dtsflow.volume.block import BlockIndex
from dtsflow.volume.format import BLOCK_BYTES
from dtsflow.volume.volume_set import VolumeSet

INDEX_BYTES = 8 + 8 + 4  # offset, size and label of one sample

Flags = npt.NDArray[np.bool_]


def resident_bytes(volumes: VolumeSet, needed: Flags | None = None) -> int:
    """Bytes that the `needed` blocks, or all, and the index occupy during a run."""
    layout = _Layout.of(volumes, volumes.counts > 0 if needed is None else needed)
    return layout.total_bytes + volumes.num_samples * INDEX_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Where each block lies in the store's memory; -1 for one that is not needed."""

    offsets: Ints
    total_bytes: int

    @classmethod
    def of(cls, volumes: VolumeSet, needed: Flags) -> "_Layout":
        offsets = np.full(len(volumes.counts), -1, np.int64)
        filled = np.flatnonzero(needed)
        nbytes = np.full(len(filled), BLOCK_BYTES, np.int64)
        if volumes.layout == "pixels":  # each file is a block, as large as it is
            nbytes[:] = [volumes.span(int(block)).nbytes for block in filled]
        room = -(-nbytes // PAGE) * PAGE
        offsets[filled] = np.cumsum(room) - room
        return cls(offsets, int(room.sum()))


class ResidentStore:
    """All blocks of a data set in one memory, readable as soon as each has arrived.

    Blocks of `delivery` are read first, in that order, then all others; with `needed`,
    a flag a block, only those of them. Satisfies Store.
    """

    def __init__(
        self,
        volumes: VolumeSet,
        delivery: Ints,
        io_threads: int,
        verify: Verify,
        retries: int,
        needed: Flags | None = None,
    ) -> None:
        needed = volumes.counts > 0 if needed is None else needed
        self._shared = _Shared(volumes, needed)
        rest = np.setdiff1d(np.flatnonzero(needed), delivery)
        blocks = [int(block) for block in (*delivery, *rest)]
        self._shared.waiting = iter(blocks)
        readers = [
            BlockReader(volumes, verify, retries, self._shared.pause)
            for _ in range(min(io_threads, len(blocks)))
        ]
        self._io = IoThreads(readers, partial(_read_blocks, self._shared), self._shared.close)

    @property
    def threads(self) -> Sequence[threading.Thread]:
        """The IO threads."""
        return self._io.threads

    @property
    def retries(self) -> int:
        """How often a read was tried again so far."""
        return self._io.retries

    def begin(self, epoch: EpochOrder, steps: range, timeout_s: float = 300.0) -> None:
        """Begin a pass; there is nothing to prepare."""

    def release(self, rows: Rows) -> None:
        """Nothing: all stays where it is."""

    def end(self) -> None:
        """End a pass; whoever waits for a block may wait on, it will come."""

    def gather(self, rows: Rows) -> Samples:
        """The stored samples of `rows`, all valid; waits until their blocks are there.

        Raises:
            VolumeError: A block could not be read.
            ClosedError: The store was closed while this waited.
        """
        self._shared.wait_for(rows.blocks)
        shared = self._shared
        return Samples(
            memory=shared.memory,
            offsets=shared.offsets[rows.ids],
            sizes=shared.sizes[rows.ids],
            labels=shared.labels[rows.ids],
            ids=rows.ids,
            refused=shared.refused_of(rows.blocks),
            stands_for=rows.draw_ids(shared.volumes.num_samples),
        )

    def progress(self) -> str:
        """How far reading has come, for the message of a stalled run."""
        return f"{self._shared.missing} of {self._shared.total} blocks are not read yet"

    def close(self, *, wait: bool = True) -> None:
        """Stop reading, wake every waiter, and wait until the IO threads are gone."""
        self._io.close(wait=wait)


class _Shared:
    """What the IO threads write and the workers read; does not refer to its store."""

    def __init__(self, volumes: VolumeSet, needed: Flags) -> None:
        layout = _Layout.of(volumes, needed)
        self.volumes = volumes
        self.starts = layout.offsets
        self.memory = aligned_bytes(layout.total_bytes)
        # Zeros in a damaged block, whose samples must not be looked at.
        self.offsets = np.zeros(volumes.num_samples, np.int64)
        self.sizes = np.zeros(volumes.num_samples, np.int64)
        self.labels = np.full(volumes.num_samples, -1, np.int32)
        self.ready = np.zeros(len(volumes.counts), np.bool_)
        self.total = int(np.count_nonzero(needed))
        self.missing = self.total
        self.waiting: Iterator[int] = iter(())
        self.errors: dict[int, Exception] = {}
        self.refused: dict[int, str] = {}
        self.closed = False
        self.arrived = threading.Condition()
        self._ending = threading.Event()

    def wait_for(self, blocks: Ints) -> None:
        if self.missing == 0 and not self.errors:
            return
        with self.arrived:
            while not self.ready[blocks].all():
                self.raise_for(blocks)
                if self.closed:
                    raise ClosedError("The run was closed while a worker waited for a block.")
                self.arrived.wait()

    def raise_for(self, blocks: Ints) -> None:
        """Raise what reading one of `blocks` failed with."""
        for block in np.unique(blocks):
            if (error := self.errors.get(int(block))) is not None:
                # A new one for each caller: an error that was raised keeps its frames.
                raise type(error)(*error.args) from error

    def refused_of(self, blocks: Ints) -> Mapping[int, str]:
        """Which of the samples in `blocks` lie in a damaged block, and the damage."""
        if not self.refused:
            return {}
        found = ((number, self.refused.get(int(block))) for number, block in enumerate(blocks))
        return {number: reason for number, reason in found if reason is not None}

    def next_block(self) -> int | None:
        """The block to read next; several threads may ask."""
        with self.arrived:
            return None if self.closed else next(self.waiting, None)

    def memory_of(self, block: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
        """Where a block lies."""
        start = int(self.starts[block])
        return self.memory[start : start + self.volumes.span(block).nbytes]

    def enter(self, block: int, index: BlockIndex | None, reason: str = "") -> None:
        """Say that a block has arrived, with its samples, or damaged."""
        first = int(self.volumes.first_ids[block])
        if index is not None:
            entries = slice(first, first + len(index))
            self.offsets[entries] = index.offsets + self.starts[block]
            self.sizes[entries] = index.sizes
            self.labels[entries] = index.labels
        with self.arrived:
            if index is None:
                self.refused[block] = reason
            self.ready[block] = True
            self.missing -= 1
            self.arrived.notify_all()

    def fail(self, block: int, error: Exception) -> None:
        with self.arrived:
            self.errors[block] = error
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
    """What one IO thread does; after a block that fails it reads the next one."""
    try:
        while (block := shared.next_block()) is not None:
            try:
                index = reader.read(block, shared.memory_of(block), lambda: shared.closed)
                if index is not None:
                    shared.enter(block, index)
            except BlockError as damage:
                shared.enter(block, None, str(damage))
            except Exception as error:  # noqa: BLE001  # whoever needs the block raises it
                shared.fail(block, error)
    finally:
        reader.close()
