"""The store of records that can be read in any order: each worker reads its own."""

import threading
from collections.abc import Sequence

import numpy as np

from dtsflow.errors import ClosedError
from dtsflow.reader.order import EpochOrder, Ints, Rows
from dtsflow.reader.record_memory import RecordMemory
from dtsflow.reader.samples import Samples
from dtsflow.volume.record_set import RecordSet
from dtsflow.volume.records import IndexedRecords, RecordReader


def joined(records: Sequence[bytes], ids: Ints) -> Samples:
    """Records in one memory, as a chunk of samples; they have no labels."""
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
        """The records of `rows`, all valid.

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
        """How far reading has come, for the message of a stalled run."""
        return "workers read records themselves"

    def close(self, *, wait: bool = True) -> None:
        """Close all readers; with `wait`, as soon as nobody reads with them."""
        with self._lock:
            self._closed = True
        for reader in self._readers:
            reader.close(wait=wait)

    def _reader(self) -> "_Reader":
        """The reader of the calling thread."""
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
