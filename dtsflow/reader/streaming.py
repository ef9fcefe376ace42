"""The streaming store: a lane's next window loads while the one before is used.

In a mix each lane has windows of every source, for its rows take from them in turn.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from dtsflow.errors import BlockError, ClosedError, StallError
from dtsflow.memory.align import aligned_bytes
from dtsflow.reader.block_io import BlockReader, Verify
from dtsflow.reader.lanes import Leg, window_sizes
from dtsflow.reader.order import EpochOrder, Ints, Order, Rows
from dtsflow.reader.store import Bytes, IoThreads, Samples
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.block import BlockIndex
from dtsflow.volume.format.header import BLOCK_BYTES

_BLOCK_BITS = 32  # of a number that has a leg above them
SLOTS = 2  # windows of a lane and source: one that is used, one that loads


def slot_blocks(order: Order) -> list[int]:
    """Return the most blocks of any lane's window in any epoch, for each source.

    A lane has a run of a source's samples, so it holds at most as many whole blocks as
    the smallest blocks that have as many samples, and a part of one more at either end.
    """
    runs = zip(order.sources, order.longest_runs, order.rounds_of_sources, strict=True)
    return [
        _slot_blocks(
            np.sort(order.counts[own.start : own.stop]), most, order.window, begins_again=rounds > 1
        )
        for own, most, rounds in runs
    ]


def _slot_blocks(ascending: Ints, most: int, window: int, *, begins_again: bool) -> int:
    """Return the most blocks of a window in a run of `most` samples of one source."""
    counts = ascending[ascending > 0]
    if not most:
        return 0
    rounds, rest = divmod(most, int(counts.sum()))
    whole = int(np.searchsorted(np.cumsum(counts), rest, side="right"))
    turns = rounds * len(counts) + whole + 2
    if not begins_again:  # then a run comes to no block again
        turns = min(turns, len(counts))
    return min(len(counts), max(window_sizes(turns, window)))


def streaming_bytes(order: Order, lanes: range) -> int:
    """Return the bytes that the windows of these lanes occupy during a run."""
    return len(lanes) * SLOTS * sum(slot_blocks(order)) * BLOCK_BYTES


_Key = tuple[int, int]
"""A lane, and a source."""


class _Window:
    """One leg of a lane at work: where its blocks lie, and what is known of them.

    `left` counts the rows still to be written, `missing` the blocks still to come.
    """

    def __init__(self, wanted: "_Wanted", start: int, counts: Ints) -> None:
        self.leg = leg = wanted.leg
        self.start = start  # of its slot in the memory
        self.left = wanted.rows
        self.missing = len(leg.blocks)
        self.refused: dict[int, str] = {}
        self.error: Exception | None = None
        self._sorted = np.argsort(leg.blocks)
        own = counts[leg.blocks]
        self._firsts = np.cumsum(own) - own
        # Zeros in a damaged block, whose samples must not be looked at.
        self._offsets = np.zeros(int(own.sum()), np.int64)
        self._sizes = np.zeros(int(own.sum()), np.int64)
        self._labels = np.full(int(own.sum()), -1, np.int32)

    def enter(self, number: int, index: BlockIndex) -> None:
        """Enter the samples of the leg's block `number`."""
        first = int(self._firsts[number])
        entries = slice(first, first + len(index))
        self._offsets[entries] = index.offsets + (self.start + number * BLOCK_BYTES)
        self._sizes[entries] = index.sizes
        self._labels[entries] = index.labels

    def look_up(self, rows: Rows) -> tuple[Ints, Ints, npt.NDArray[np.int32]]:
        """Offset, size and label of each row's sample."""
        blocks = self.leg.blocks
        numbers = self._sorted[np.searchsorted(blocks, rows.blocks, sorter=self._sorted)]
        entries = self._firsts[numbers] + rows.places
        return self._offsets[entries], self._sizes[entries], self._labels[entries]


@dataclass(frozen=True, slots=True, eq=False)
class _Wanted:
    """A leg with the blocks that are read for it, and how many rows they are for."""

    leg: Leg
    rows: int


class _Queue:
    """A lane's windows of one source in a pass, and how far loading them has come.

    Windows are made when their turn to load comes and let go of when they are used.
    """

    def __init__(self, legs: Sequence[_Wanted], start: int, slot_bytes: int, counts: Ints) -> None:
        self._legs = legs
        self._start, self._slot_bytes, self._counts = start, slot_bytes, counts
        self.firsts = np.array([one.leg.first for one in legs], np.int64)
        self.windows: dict[int, _Window] = {}  # those that load or are used
        self._loading = 0  # the leg that is read next, or is being read
        self._block = 0  # the block of it that is read next

    @property
    def wants(self) -> int | None:
        """Return the row that the next load is for.

        None where nothing can be loaded now.
        """
        if self._loading == len(self._legs) or self._loading - SLOTS in self.windows:
            return None
        return self._legs[self._loading].leg.row

    def take(self) -> tuple[_Window, int]:
        """Take the next block to load, as a window and the block's number in it."""
        number, block = self._loading, self._block
        if block == 0:
            start = self._start + number % SLOTS * self._slot_bytes
            self.windows[number] = _Window(self._legs[number], start, self._counts)
        self._block += 1
        if self._block == len(self._legs[number].leg.blocks):
            self._loading, self._block = number + 1, 0
        return self.windows[number], block

    def parts(self, numbers: Ints) -> Iterator[tuple[int, slice]]:
        """Return which legs these consecutive rows lie in, and which rows lie there."""
        legs = np.searchsorted(self.firsts, numbers, side="right") - 1
        for part in _runs(legs):
            yield int(legs[part.start]), part


class StreamingStore:
    """Two windows of each lane and source in one memory; satisfies Store.

    Args:
        volumes: The data set, in blocks.
        order: Its order; how large a window may be follows from it.
        lanes: The lanes of this rank.
        memory: Where windows go, `streaming_bytes` at least; None: memory of its own.
    """

    def __init__(  # noqa: PLR0913  # what a reader is configured with
        self,
        volumes: VolumeSet,
        order: Order,
        lanes: range,
        io_threads: int,
        verify: Verify,
        retries: int,
        *,
        memory: Bytes | None = None,
    ) -> None:
        self._shared = _Shared(volumes, order, lanes, memory)
        readers = [
            BlockReader(volumes, verify, retries, self._shared.pause) for _ in range(io_threads)
        ]
        self._io = IoThreads(readers, partial(_read_windows, self._shared), self._shared.close)

    @property
    def threads(self) -> Sequence[threading.Thread]:
        """Return the IO threads."""
        return self._io.threads

    @property
    def retries(self) -> int:
        """Return how often a read was tried again so far."""
        return self._io.retries

    def begin(self, epoch: EpochOrder, steps: range, timeout_s: float = 300.0) -> None:
        """Begin to load the windows of a pass, in the order they are needed.

        Raises:
            StallError: A read for the pass before has not returned for `timeout_s`.
        """
        self._shared.begin(epoch, steps, timeout_s)

    def begin_only(
        self, epoch: EpochOrder, steps: range, rows: Iterable[Rows], timeout_s: float = 300.0
    ) -> None:
        """Begin as `begin` does, but load only the blocks that `rows` need.

        Nothing but these rows, all of the pass and valid, may then be gathered.

        Raises:
            StallError: A read for the pass before has not returned for `timeout_s`.
        """
        self._shared.begin(epoch, steps, timeout_s, rows)

    def end(self) -> None:
        """Load no more for this pass, and wake whoever waits in it."""
        self._shared.end()

    def gather(self, rows: Rows) -> Samples:
        """Return the stored samples of `rows`, all valid.

        It waits until they are there.

        Raises:
            VolumeError: A block could not be read.
            ClosedError: The store was closed, or the pass ended, while this waited.
        """
        return self._shared.gather(rows)

    def release(self, rows: Rows) -> None:
        """Say that rows are written; a window all of whose rows are makes room."""
        self._shared.release(rows)

    def progress(self) -> str:
        """Return how far reading has come, for the message of a stalled run."""
        return self._shared.progress()

    def close(self, *, wait: bool = True) -> None:
        """Stop reading, wake every waiter, and wait until the IO threads are gone."""
        self._io.close(wait=wait)


class _Shared:
    """The state that IO threads write and workers read; does not refer to its store."""

    def __init__(
        self, volumes: VolumeSet, order: Order, lanes: range, memory: Bytes | None
    ) -> None:
        self.volumes = volumes
        self._lanes = lanes
        self._slot_bytes = [blocks * BLOCK_BYTES for blocks in slot_blocks(order)]
        needed = streaming_bytes(order, lanes)
        self.memory = aligned_bytes(needed) if memory is None else memory[:needed]
        self._queues: dict[_Key, _Queue] = {}
        self._pass = 0  # counts up with every beginning and end
        self._busy = 0  # IO threads that write to the memory
        self._closed = False
        self._changed = threading.Condition()
        self._ending = threading.Event()

    def begin(
        self,
        epoch: EpochOrder,
        steps: range,
        timeout_s: float,
        rows: Iterable[Rows] | None = None,
    ) -> None:
        legs: dict[_Key, list[Leg]] = {
            (lane, source): [] for lane in self._lanes for source in range(len(self._slot_bytes))
        }
        for lane in self._lanes:
            for leg in epoch.legs(steps, lane):
                legs[lane, leg.source].append(leg)
        wanted = _all_wanted(legs) if rows is None else _wanted_for(legs, rows)
        queues, start = {}, 0
        for key, own in wanted.items():
            slot_bytes = self._slot_bytes[key[1]]
            queues[key] = _Queue(own, start, slot_bytes, self.volumes.counts)
            start += SLOTS * slot_bytes
        with self._changed:
            # What still loads for the pass before would write into the same slots.
            if not self._changed.wait_for(lambda: self._closed or not self._busy, timeout_s):
                raise StallError(
                    f"The disk stalled: {self._busy} reads for the pass before have not returned "
                    f"after {timeout_s:g} s. Check the disk or the network share."
                )
            self._pass += 1
            self._queues = queues
            self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self._pass += 1
            self._queues = {}
            self._changed.notify_all()

    def gather(self, rows: Rows) -> Samples:
        parts = list(self._parts(rows))
        found = [np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)]
        labels = np.empty(len(rows), np.int32)
        refused: dict[int, str] = {}
        copies: list[Bytes] | None = [] if _spans_too_many(parts) else None
        for queue, number, part in parts:
            window = self._wait_for(queue, number)
            found[0][part], found[1][part], labels[part] = window.look_up(rows.only(part))
            if window.refused:
                refused |= {
                    place: window.refused[block]
                    for place, block in zip(part.tolist(), rows.blocks[part].tolist(), strict=True)
                    if block in window.refused
                }
            if copies is not None:
                copies.append(self._copy(found[0][part], found[1][part]))
                self._release(queue, number, len(part))
        memory = self.memory
        if copies is not None:
            memory = np.concatenate(copies)
            copied = np.concatenate([part for _, _, part in parts])
            found[0][copied] = np.cumsum(found[1][copied]) - found[1][copied]
        stands_for = rows.draw_ids(self.volumes.num_samples)
        return Samples(memory, found[0], found[1], labels, rows.ids, refused, stands_for)

    def release(self, rows: Rows) -> None:
        parts = list(self._parts(rows))
        if not _spans_too_many(parts):  # what was copied was released at once
            for queue, number, part in parts:
                self._release(queue, number, len(part))

    def next_load(self) -> "_Load | None":
        """Take the load that is needed first of those with room; waits for one."""
        with self._changed:
            while not self._closed:
                wanting = [(q.wants, key) for key, q in self._queues.items()]
                ready = [(row, key) for row, key in wanting if row is not None]
                if ready:
                    _, key = min(ready)
                    self._busy += 1
                    return _Load(*self._queues[key].take(), self._pass)
                self._changed.wait()
            return None

    def loaded(self, load: "_Load", index: BlockIndex | None, damage: str = "") -> None:
        """Enter a block that has come, whole or damaged."""
        with self._changed:
            if index is not None:
                load.window.enter(load.number, index)
            elif damage:
                load.window.refused[load.block] = damage
            load.window.missing -= 1
            self._done()

    def failed(self, load: "_Load", error: Exception) -> None:
        with self._changed:
            load.window.error = error
            self._done()

    def left(self) -> None:
        """Say that a load was left because its pass has ended."""
        with self._changed:
            self._done()

    def is_over(self, load: "_Load") -> bool:
        return self._closed or load.of_pass != self._pass

    def pause(self, seconds: float) -> bool:
        """Wait; True if the store was closed meanwhile."""
        return self._ending.wait(seconds)

    def progress(self) -> str:
        with self._changed:
            windows = [w for queue in self._queues.values() for w in queue.windows.values()]
            return f"{sum(window.missing for window in windows)} blocks are being read"

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._ending.set()
            self._changed.notify_all()

    def _done(self) -> None:
        self._busy -= 1
        self._changed.notify_all()

    def _wait_for(self, queue: _Queue, number: int) -> _Window:
        with self._changed:
            begun = self._pass
            while True:
                if self._closed or self._pass != begun or queue not in self._queues.values():
                    raise ClosedError("The pass was ended while a worker waited for a block.")
                window = queue.windows.get(number)
                if window is not None and window.error is not None:
                    # A new one for each caller: one that was raised keeps its frames.
                    raise type(window.error)(*window.error.args) from window.error
                if window is not None and not window.missing:
                    return window
                self._changed.wait()

    def _release(self, queue: _Queue, number: int, rows: int) -> None:
        with self._changed:
            window = queue.windows[number]
            window.left -= rows
            assert window.left >= 0
            if not window.left:
                del queue.windows[number]
                self._changed.notify_all()

    def _parts(self, rows: Rows) -> Iterator[tuple[_Queue, int, Ints]]:
        """Yield the windows that rows lie in, and which rows.

        In order in each queue.
        """
        queues = self._queues
        for (lane, source), own in _by_queue(rows):
            queue = queues.get((lane, source))
            if queue is None:
                raise ClosedError("The pass has ended.")
            for number, part in queue.parts(rows.numbers[own]):
                yield queue, number, own[part]

    def _copy(self, offsets: Ints, sizes: Ints) -> Bytes:
        pieces = [
            self.memory[start : start + size] for start, size in zip(offsets, sizes, strict=True)
        ]
        return np.concatenate(pieces)


@dataclass(frozen=True, slots=True)
class _Load:
    """A block to read into its place in a window."""

    window: _Window
    number: int
    of_pass: int

    @property
    def block(self) -> int:
        return int(self.window.leg.blocks[self.number])

    def memory_in(self, memory: Bytes) -> Bytes:
        start = self.window.start + self.number * BLOCK_BYTES
        return memory[start : start + BLOCK_BYTES]


def _all_wanted(legs: Mapping[_Key, Sequence[Leg]]) -> dict[_Key, list[_Wanted]]:
    """Return the legs, for all of their rows."""
    return {key: [_Wanted(leg, leg.last - leg.first) for leg in own] for key, own in legs.items()}


def _wanted_for(
    legs: Mapping[_Key, Sequence[Leg]], pages: Iterable[Rows]
) -> dict[_Key, list[_Wanted]]:
    """Return the legs that some rows lie in, with no blocks but theirs."""
    rows = {key: np.zeros(len(own), np.int64) for key, own in legs.items()}
    pairs: dict[_Key, list[Ints]] = {key: [] for key in legs}  # a leg and a block in one
    firsts = {key: np.array([leg.first for leg in own], np.int64) for key, own in legs.items()}
    for page in pages:
        for key in legs:
            mine = page.lanes == key[0]
            if page.sources is not None:
                mine &= page.sources == key[1]
            found = np.searchsorted(firsts[key], page.numbers[mine], side="right") - 1
            np.add.at(rows[key], found, 1)
            pairs[key].append(np.unique(found << _BLOCK_BITS | page.blocks[mine]))
    return {key: _thinned(own, rows[key], pairs[key]) for key, own in legs.items()}


def _thinned(legs: Sequence[Leg], rows: Ints, pairs: Sequence[Ints]) -> list[_Wanted]:
    """Return the legs that have rows, with the blocks that they are paired with."""
    joined = np.concatenate([np.empty(0, np.int64), *pairs])
    of_legs, blocks = joined >> _BLOCK_BITS, joined & (1 << _BLOCK_BITS) - 1
    return [
        _Wanted(
            replace(leg, blocks=leg.blocks[np.isin(leg.blocks, blocks[of_legs == number])]),
            int(rows[number]),
        )
        for number, leg in enumerate(legs)
        if rows[number]
    ]


def _by_queue(rows: Rows) -> Iterator[tuple[_Key, Ints]]:
    """Yield the rows of each lane and source, in their order."""
    every = np.arange(len(rows))
    for run in _runs(rows.lanes):
        lane = int(rows.lanes[run.start])
        if rows.sources is None:
            yield (lane, 0), every[run]
            continue
        sources = rows.sources[run]
        for source in np.unique(sources).tolist():
            yield (lane, source), every[run][sources == source]


def _runs(values: Ints) -> Iterator[slice]:
    """Yield the stretches of equal values."""
    edges = (np.flatnonzero(np.diff(values)) + 1).tolist()
    for start, stop in zip([0, *edges], [*edges, len(values)], strict=True):
        yield slice(start, stop)


def _spans_too_many(parts: Sequence[tuple[_Queue, int, Ints]]) -> bool:
    """Tell whether rows of some queue lie in more windows than it has slots.

    Then the first of them would be in the way of the last, for all are held until the
    rows are written: such samples are copied out. It takes windows of a few rows.
    """
    queues = Counter(id(queue) for queue, _, _ in parts)
    return max(queues.values()) > SLOTS


def _read_windows(shared: _Shared, reader: BlockReader) -> None:
    """Run one IO thread; after a block that fails it reads the next one."""
    try:
        while (load := shared.next_load()) is not None:
            try:
                memory = load.memory_in(shared.memory)
                index = reader.read(load.block, memory, partial(shared.is_over, load))
                shared.loaded(load, index) if index is not None else shared.left()
            except BlockError as damage:
                shared.loaded(load, None, str(damage))
            except Exception as error:  # noqa: BLE001  # whoever needs the block raises it
                shared.failed(load, error)
    finally:
        reader.close()
