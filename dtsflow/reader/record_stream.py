"""The store of a stream of records: every lane reads it from its own place."""

import threading
from collections.abc import Generator, Iterator, Sequence

import numpy as np

from dtsflow.errors import ClosedError, SetError
from dtsflow.reader.order import EpochOrder, Ints, Rows, Shuffle
from dtsflow.reader.records import RecordMemory, joined
from dtsflow.reader.rows import Portions
from dtsflow.reader.store import Samples
from dtsflow.volume.datasets.records import RecordSet, StreamedRecords


class StreamStore:
    """Reads a stream once for each lane and pass; satisfies Store.

    A lane's records up to the last one that was asked for are read, and kept until
    their rows are released: as many as the buffer, and those of two batches, at most.
    With the copies that workers have, more than `limit` bytes are refused.
    """

    threads: Sequence[threading.Thread] = ()
    retries = 0

    def __init__(self, records: RecordSet, portions: Portions, limit: int | None = None) -> None:
        self._set = records
        self._memory = RecordMemory(records, limit)
        self._portions = portions
        self._lanes: dict[int, _Lane] = {}
        selection = portions.selection
        self._ids = np.arange(len(records.records)) if selection is None else selection.ids

    def begin(
        self,
        epoch: EpochOrder,
        steps: range,
        timeout_s: float = 300.0,  # noqa: ARG002  # workers of the pass before have left it
    ) -> None:
        """Begin a pass: the lanes go to where its first batch begins."""
        self._close_lanes(wait=True)
        self._memory.begin()
        order = self._portions.order
        buffer = self._set.records.buffer or 1
        size = buffer if order.shuffle is Shuffle.WINDOWS else 1
        for lane in self._portions.lanes:
            start, stop = order.lane_bounds(lane)
            own = self._ids[start:stop]
            first = steps.start * order.lane_rows
            if first < len(own):
                # The window of that record began here, and may be half delivered.
                window = int(np.searchsorted(own, int(own[first]) // size * size))
                left = own[window:]
                if window < first:
                    gone = _delivered(epoch, lane, window, steps.start)
                    left = np.setdiff1d(left, self._ids[gone])
                self._lanes[lane] = _Lane(self._set, left, self._memory)

    def gather(self, rows: Rows) -> Samples:
        """Return the records of `rows`, all valid.

        The stream is read up to them.

        Raises:
            VolumeError: One cannot be read, or is longer than its loader said.
            MemoryPlanError: They take more memory than is allowed.
        """
        found: list[bytes] = []
        for lane, ids in _by_lane(rows):
            found += self._lanes[lane].take(ids)
        self._memory.lend(rows, found, times=1)
        return joined(found, rows.ids)

    def release(self, rows: Rows) -> None:
        """Let go of the records of an earlier `gather`."""
        for lane, ids in _by_lane(rows):
            self._lanes[lane].release(ids)
        self._memory.give_back(rows)

    def end(self) -> None:
        """End the pass; its readers learn of it at their next record."""
        for lane in self._lanes.values():
            lane.ended = True

    def progress(self) -> str:
        """Return how far reading has come, for the message of a stalled run."""
        places = ", ".join(f"{number}: {lane.next}" for number, lane in self._lanes.items())
        return f"next record of each lane: {places}"

    def close(self, *, wait: bool = True) -> None:
        """Close the streams; with `wait`, as soon as nobody reads them."""
        self.end()
        self._close_lanes(wait=wait)

    def _close_lanes(self, *, wait: bool) -> None:
        for lane in self._lanes.values():
            lane.close(wait=wait)
        self._lanes = {}


class _Lane:
    """One lane of a pass; `own` are the ids of its records that are left."""

    def __init__(self, records: RecordSet, own: Ints, memory: RecordMemory) -> None:
        self._set = records
        self._own = own
        self._memory = memory
        self._read = 0  # how many of `own`
        self.next = int(own[0])  # the record that the stream gives next
        self._stream: Iterator[bytes] | None = None
        self._kept: dict[int, bytes] = {}
        self._lock = threading.Lock()
        self.ended = False

    def take(self, ids: Ints) -> list[bytes]:
        with self._lock:
            last = int(ids.max())
            while self.next <= last:
                self._keep_next()
            return [self._kept[number] for number in ids.tolist()]

    def release(self, ids: Ints) -> None:
        with self._lock:
            self._memory.drop([self._kept.pop(number) for number in ids.tolist()])

    def close(self, *, wait: bool) -> None:
        if self._lock.acquire(blocking=wait):
            try:
                stream, self._stream = self._stream, None
                if isinstance(stream, Generator):
                    stream.close()
            finally:
                self._lock.release()

    def _keep_next(self) -> None:
        if self.ended:
            raise ClosedError("The pass ended while a worker read a stream.")
        if self._stream is None:
            records = self._set.records
            assert isinstance(records, StreamedRecords)
            self._stream = records.stream(self.next)
        try:
            record = next(self._stream)
        except StopIteration:
            raise SetError(
                f"{self._set.loader}: its stream ended after {self.next:,} records, and it had "
                f"counted {len(self._set.records):,}. Something wrote to the source: start again."
            ) from None
        if self.next == self._own[self._read]:
            self._memory.keep(record)
            self._kept[self.next] = record
            self._read += 1
        self.next += 1


def _delivered(epoch: EpochOrder, lane: int, first: int, step: int) -> Ints:
    """Return a lane's records before a step, from row `first` or before, by place."""
    q = epoch.lane_rows
    return epoch.rows(first // q, step - first // q, range(lane, lane + 1)).ids


def _by_lane(rows: Rows) -> Iterator[tuple[int, Ints]]:
    """Yield the lanes of consecutive rows in their order, each with its ids."""
    edges = (np.flatnonzero(np.diff(rows.lanes)) + 1).tolist()
    for start, stop in zip([0, *edges], [*edges, len(rows)], strict=True):
        yield int(rows.lanes[start]), rows.ids[start:stop]
