"""The store of records that can be read in any order: each worker reads its own.

The bytes of records in memory have a limit, which is kept. Substitutes are read one at
a time.
"""

import threading
from collections.abc import Callable, Sequence

import numpy as np

from dtsflow.errors import ClosedError, MemoryPlanError, SetError
from dtsflow.reader.order import EpochOrder, Ints, Rows, Tail
from dtsflow.reader.rows import Portions
from dtsflow.reader.store import Samples
from dtsflow.volume.datasets.records import IndexedRecords, RecordReader, RecordSet

RECORD_BYTES = 160  # beside a record's own: its object, its number, a place in a table
_BATCHES = 2  # that are in the making at the same time, one for each zone


def record_bytes(
    records: RecordSet, portions: Portions, workers: int, window_bytes: int
) -> tuple[int, bool]:
    """Return the most record bytes a rank has in memory, and whether that is exact.

    Where the loader knows the records' lengths it is what the longest of them take:
    each worker has a portion in hand, which is there twice when it is joined; of a
    stream a lane keeps its buffer and two batches, and a worker has a copy. Else it is
    the rank's part of `window_bytes`, and `RecordMemory` sees to it.
    """
    if records.lengths is None:
        return window_share(portions, window_bytes), False
    busy = min(workers, _BATCHES * portions.of_batch)
    in_hand = min(busy * portions.chunk_rows, _BATCHES * portions.rows)
    if not records.is_stream:
        return _longest(records.lengths, portions, in_hand, times=2), True
    of_lane = (records.records.buffer or 0) + _BATCHES * portions.order.lane_rows
    kept = _longest(records.lengths, portions, len(portions.lanes) * of_lane)
    return kept + _longest(records.lengths, portions, in_hand), True


def window_share(portions: Portions, window_bytes: int) -> int:
    """Return a rank's share of `window_bytes`, which is for the lanes of all ranks."""
    return max(1, window_bytes * len(portions.lanes) // portions.order.lanes)


def _longest(lengths: Ints, portions: Portions, count: int, *, times: int = 1) -> int:
    """Return what the longest records take, `count` of them and each so many times."""
    if portions.selection is not None:
        lengths = lengths[portions.selection.ids]
    if portions.order.tail is Tail.WRAP:  # the same record may be there several times
        return (times * int(lengths.max()) + RECORD_BYTES) * count
    count = min(count, len(lengths))
    first = len(lengths) - count
    longest = np.partition(lengths, first)[first:] if first else lengths
    return times * int(longest.sum()) + RECORD_BYTES * count


class RecordMemory:
    """Counts the bytes of a pass's records in memory; workers share it.

    Args:
        records: The set.
        limit: Bytes of records that may be there; None: as many as their lengths say.
    """

    def __init__(self, records: RecordSet, limit: int | None) -> None:
        self._set = records
        self._limit = limit
        self._bytes = 0
        self._portions: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Forget what a pass had."""
        with self._lock:
            self._bytes, self._portions = 0, {}

    def keep(self, record: bytes) -> None:
        """Count a record that is there from now on.

        Raises:
            MemoryPlanError: It is more than allowed.
        """
        self._count(len(record) + RECORD_BYTES)

    def drop(self, records: Sequence[bytes]) -> None:
        """Count records no more that were kept."""
        self._count(-sum(map(len, records)) - RECORD_BYTES * len(records))

    def lend(self, rows: Rows, found: Sequence[bytes], *, times: int) -> None:
        """Count the records of `rows`, which a worker has so many times.

        Raises:
            MemoryMemoryPlanError: They are more than allowed.
            SetError: One is longer than its loader said.
        """
        self._check(rows.ids, found)
        nbytes = times * sum(map(len, found)) + RECORD_BYTES * len(found)
        with self._lock:
            self._portions[_key(rows)] = nbytes
        self._count(nbytes)

    def give_back(self, rows: Rows) -> None:
        """Count it no more."""
        with self._lock:
            self._bytes -= self._portions.pop(_key(rows), 0)

    def _count(self, more: int) -> None:
        with self._lock:
            self._bytes += more
            if self._limit is not None and self._bytes > self._limit:
                raise MemoryPlanError(
                    f"{self._set.loader}: its records in memory take {self._bytes:,} bytes on this "
                    f"rank, and reader.window_bytes leaves {self._limit:,} to it. Raise it, choose "
                    "a smaller batch_size or buffer or fewer workers; or let the records say "
                    "their `lengths`, so that what they need is planned."
                )

    def _check(self, ids: Ints, found: Sequence[bytes]) -> None:
        if (lengths := self._set.lengths) is None:
            return
        sizes = np.fromiter(map(len, found), np.int64, len(found))
        for place in np.flatnonzero(sizes > lengths[ids])[:1].tolist():
            number = int(ids[place])
            raise SetError(
                f"{self._set.loader}: {self._set.where(number)} has {sizes[place]:,} bytes, and "
                f"{lengths[number]:,} were planned. Something wrote to the source: start again; "
                "or the loader's lengths are wrong."
            )


def _key(rows: Rows) -> tuple[int, int]:
    return int(rows.lanes[0]), int(rows.numbers[0])


def joined(records: Sequence[bytes], ids: Ints) -> Samples:
    """Join records in one memory, as a chunk of samples.

    Records have no labels.
    """
    sizes = np.array([len(record) for record in records], np.int64)
    return Samples(
        np.frombuffer(b"".join(records), np.uint8),
        offsets=np.cumsum(sizes) - sizes,
        sizes=sizes,
        labels=np.full(len(ids), -1, np.int32),
        ids=ids,
    )


class RecordStore:
    """Reads records when a worker asks for them; satisfies Store.

    A batch is filled while another one is in use, so that is read-ahead enough for what
    lies in the page cache; a slow source wants more workers than CPUs. A chunk is there
    twice while it is joined. More than `limit` bytes are refused.
    """

    threads: Sequence[threading.Thread] = ()
    retries = 0

    def __init__(self, records: RecordSet, limit: int | None = None) -> None:
        assert isinstance(records.records, IndexedRecords)
        self._records = records.records
        self._memory = RecordMemory(records, limit)
        self._own = threading.local()
        self._readers: list[_Reader] = []
        self._lock = threading.Lock()
        self._closed = False

    def begin(
        self,
        epoch: EpochOrder,  # noqa: ARG002  # rows are asked for by their ids
        steps: range,  # noqa: ARG002  # of which only those come
        timeout_s: float = 300.0,  # noqa: ARG002  # workers of the pass before have left it
    ) -> None:
        """Begin a pass, with no record in memory."""
        self._memory.begin()

    def gather(self, rows: Rows) -> Samples:
        """Return the records of `rows`, all valid.

        Raises:
            VolumeError: One cannot be read, or is longer than its loader said.
            MemoryPlanError: They take more memory than is allowed.
        """
        found = self._reader().read(rows.ids)
        self._memory.lend(rows, found, times=2)
        return joined(found, rows.ids)

    def release(self, rows: Rows) -> None:
        """Count them no more: whoever gathered them owns them."""
        self._memory.give_back(rows)

    def end(self) -> None:
        """End a pass; nobody waits in it."""

    def progress(self) -> str:
        """Return how far reading has come, for the message of a stalled run."""
        return "workers read records themselves"

    def close(self, *, wait: bool = True) -> None:
        """Close all readers; with `wait`, as soon as nobody reads with them."""
        with self._lock:
            self._closed = True
        for reader in self._readers:
            reader.close(wait=wait)

    def _reader(self) -> "_Reader":
        """Return the reader of the calling thread."""
        if not hasattr(self._own, "reader"):
            with self._lock:
                if self._closed:
                    raise ClosedError("The run was closed while a worker read records.")
                self._own.reader = _Reader(self._records.start())
                self._readers.append(self._own.reader)
        found: _Reader = self._own.reader
        return found


class _Reader:
    """A reader of one thread, which another thread may close."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader: RecordReader | None = reader
        self._lock = threading.Lock()

    def read(self, ids: Ints) -> list[bytes]:
        with self._lock:
            if self._reader is None:
                raise ClosedError("The run was closed while a worker read records.")
            return [self._reader.read(number) for number in ids.tolist()]

    def close(self, *, wait: bool) -> None:
        if self._lock.acquire(blocking=wait):
            try:
                reader, self._reader = self._reader, None
                if reader is not None:
                    reader.close()
            finally:
                self._lock.release()


class SingleRecords:
    """Reads single records of a set; the threads of a run share it."""

    def __init__(self, records: RecordSet) -> None:
        self._set = records

    def trust(self, block: int) -> None:
        """Do nothing: each record is read for itself."""

    def read(self, block: int, place: int, *, stop: Callable[[], bool]) -> Samples:
        """Return the sample `place` of `block`.

        A stream is read up to it.

        Raises:
            VolumeError: It cannot be read.
            ClosedError: `stop` asked for it.
        """
        if stop():
            raise ClosedError("The pass ended while a substitute was read.")
        number = int(self._set.first_ids[block]) + place
        return joined([self._record(number)], np.array([number], np.int64))

    def _record(self, number: int) -> bytes:
        records = self._set.records
        if isinstance(records, IndexedRecords):
            reader = records.start()
            try:
                return reader.read(number)
            finally:
                reader.close()
        for record in records.stream(number):
            return record
        raise SetError(f"{self._set.loader}: its stream has no record {number:,} any more.")
