"""The resident store: every block is read once and stays in memory."""

import threading
from collections.abc import Iterator, Sequence
from functools import partial

from dtsflow.errors import BlockError, ClosedError
from dtsflow.reader.block_reader import BlockReader, Verify
from dtsflow.reader.block_table import DAMAGED, FAILED, WHOLE, BlockTable, Flags, Layout
from dtsflow.reader.io_threads import IoThreads
from dtsflow.reader.order import EpochOrder, Ints, Rows
from dtsflow.reader.samples import Samples
from dtsflow.volume.volume_set import VolumeSet

POLL_S = 0.002  # nobody wakes a process for what another one has read


def resident_bytes(volumes: VolumeSet, needed: Flags | None = None) -> int:
    """Bytes that the `needed` blocks, or all, and the index occupy during a run."""
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
        table = self._shared.table
        return table.samples(rows.ids, rows.blocks, rows.draw_ids(table.volumes.num_samples))

    def progress(self) -> str:
        """How far reading has come, for the message of a stalled run."""
        table = self._shared.table
        return f"{table.missing} of {table.total} blocks are not read yet"

    def close(self, *, wait: bool = True) -> None:
        """Stop reading, wake every waiter, and wait until the IO threads are gone."""
        self._io.close(wait=wait)


class _Shared:
    """What the IO threads write and the workers read; does not refer to its store."""

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
        """The block to read next; several threads may ask."""
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
    """What one IO thread does; after a block that fails it reads the next one."""
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
