"""Reading records as substitutes, one at a time."""

from collections.abc import Callable

import numpy as np

from dtsflow.errors import ClosedError, SetError
from dtsflow.reader.record_store import joined
from dtsflow.reader.samples import Samples
from dtsflow.volume.record_set import RecordSet
from dtsflow.volume.records import IndexedRecords


class SingleRecords:
    """Reads single records of a set; the threads of a run share it."""

    def __init__(self, records: RecordSet) -> None:
        self._set = records

    def trust(self, block: int) -> None:
        """Nothing: each record is read for itself."""

    def read(self, block: int, place: int, *, stop: Callable[[], bool]) -> Samples:
        """The sample `place` of `block`; a stream is read up to it.

        Raises:
            VolumeError: It cannot be read.
            ClosedError: `stop` said so.
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
