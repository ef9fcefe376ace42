"""The resident reader: every block is read once and stays in memory."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from dtsflow.configurable import configurable
from dtsflow.errors import ClosedError
from dtsflow.memory.align import PAGE, aligned_bytes
from dtsflow.reader.order import Ints, Rows, Shuffle
from dtsflow.reader.samples import Samples
from dtsflow.volume.exact_read import opened, read_into
from dtsflow.volume.volume_set import VolumeSet

log = logging.getLogger(__name__)

LET_GO_S = 1.0  # a disk or network share that hangs must not keep the process
INDEX_BYTES = 8 + 8 + 4  # offset, size and label of one sample


@configurable
class Resident:
    """Read all blocks into memory once, in the order the first epoch needs them.

    Attributes:
        shuffle: `none` keeps volume order, `blocks` permutes blocks and the samples of
            a window, `full` permutes single samples. A pixel set has no blocks and
            takes `full` for `blocks`.
        window_bytes: Bytes of blocks that are shuffled together, over all lanes.
        io_threads: Threads that read, each with its own descriptors.
    """

    shuffle: Shuffle = Shuffle.BLOCKS
    window_bytes: Annotated[int, Field(ge=1)] = 512 << 20
    io_threads: Annotated[int, Field(ge=1, le=64)] = 4

    def planned_bytes(self, volumes: VolumeSet) -> int:
        """Bytes that the blocks and their index occupy during a run."""
        return _Layout.of(volumes).total_bytes + volumes.num_samples * INDEX_BYTES

    def open(self, volumes: VolumeSet, delivery: Ints) -> "ResidentStore":
        """Start reading: blocks of `delivery` first, in that order, then all others."""
        return ResidentStore(volumes, delivery, self.io_threads)


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Where each block lies in the reader's memory; -1 for a block without samples."""

    offsets: Ints
    total_bytes: int

    @classmethod
    def of(cls, volumes: VolumeSet) -> "_Layout":
        offsets = np.full(len(volumes.counts), -1, np.int64)
        cursor = 0
        for block in np.flatnonzero(volumes.counts):
            offsets[block] = cursor
            cursor += -(-volumes.span(int(block)).nbytes // PAGE) * PAGE
        return cls(offsets, cursor)


class ResidentStore:
    """All blocks of a data set in one memory, readable as soon as each has arrived."""

    def __init__(self, volumes: VolumeSet, delivery: Ints, io_threads: int) -> None:
        self._shared = _Shared(volumes)
        rest = np.setdiff1d(np.flatnonzero(volumes.counts), delivery)
        blocks = [int(block) for block in (*delivery, *rest)]
        self._shared.waiting = iter(blocks)
        self._threads: list[threading.Thread] = []
        try:
            for number in range(min(io_threads, len(blocks))):
                thread = threading.Thread(
                    target=_read_blocks,
                    args=(self._shared,),
                    name=f"dtsflow-io-{number}",
                    daemon=True,  # interpreter exit must not wait for the disk
                )
                thread.start()
                self._threads.append(thread)
        except BaseException:
            self.close()
            raise

    @property
    def threads(self) -> Sequence[threading.Thread]:
        """The IO threads."""
        return self._threads

    def gather(self, rows: Rows) -> Samples:
        """The stored samples of `rows`, all valid; waits until their blocks are there.

        Raises:
            VolumeError: A block could not be read, or is damaged.
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
        )

    def progress(self) -> str:
        """How far reading has come, for the message of a stalled run."""
        return f"{self._shared.missing} of {self._shared.total} blocks are not read yet"

    def close(self, *, wait: bool = True) -> None:
        """Stop reading, wake every waiter, and wait until the IO threads are gone."""
        self._shared.close()
        if not wait:
            return
        end = time.monotonic() + LET_GO_S
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        if stuck := sum(thread.is_alive() for thread in self._threads):
            log.warning("%d IO threads are still waiting for the disk; left behind", stuck)


class _Shared:
    """What the IO threads write and the workers read; does not refer to its store."""

    def __init__(self, volumes: VolumeSet) -> None:
        layout = _Layout.of(volumes)
        self.volumes = volumes
        self.starts = layout.offsets
        self.memory = aligned_bytes(layout.total_bytes)
        self.offsets = np.empty(volumes.num_samples, np.int64)
        self.sizes = np.empty(volumes.num_samples, np.int64)
        self.labels = np.empty(volumes.num_samples, np.int32)
        self.ready = np.zeros(len(volumes.counts), np.bool_)
        self.total = int(np.count_nonzero(volumes.counts))
        self.missing = self.total
        self.waiting: Iterator[int] = iter(())
        self.errors: dict[int, Exception] = {}
        self.closed = False
        self.arrived = threading.Condition()

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

    def next_block(self) -> int | None:
        """The block to read next; several threads may ask."""
        with self.arrived:
            return None if self.closed else next(self.waiting, None)

    def read(self, block: int, descriptor: int) -> None:
        """Read block `block`, check it, and enter its samples into the index."""
        span = self.volumes.span(block)
        start = int(self.starts[block])
        memory = self.memory[start : start + span.nbytes]
        if not read_into(descriptor, memory, span.offset, span.path, stop=lambda: self.closed):
            return
        self.volumes.check_content(memory)
        index = self.volumes.index(block, memory)
        first = int(self.volumes.first_ids[block])
        entries = slice(first, first + len(index.offsets))
        self.offsets[entries] = index.offsets + start
        self.sizes[entries] = index.sizes
        self.labels[entries] = index.labels
        with self.arrived:
            self.ready[block] = True
            self.missing -= 1
            self.arrived.notify_all()

    def fail(self, block: int, error: Exception) -> None:
        with self.arrived:
            self.errors[block] = error
            self.arrived.notify_all()

    def close(self) -> None:
        with self.arrived:
            self.closed = True
            self.arrived.notify_all()


def _read_blocks(shared: _Shared) -> None:
    """What one IO thread does; after a block that fails it reads the next one."""
    with ExitStack() as held:
        path: Path | None = None
        descriptor = -1
        while (block := shared.next_block()) is not None:
            try:
                wanted = shared.volumes.span(block).path
                if wanted != path:  # one descriptor at a time, however many volumes there are
                    held.close()
                    path, descriptor = wanted, held.enter_context(opened(wanted))
                shared.read(block, descriptor)
            except Exception as error:  # noqa: BLE001  # whoever needs the block raises it
                path = None
                shared.fail(block, error)
