"""What a plugin's loader offers: records, which are bytes that mean something to it."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable


class RecordReader(Protocol):
    """Reads records; each worker has its own, so it may keep files open and scratch."""

    def read(self, number: int) -> bytes:
        """The bytes of record `number`, the same whenever it is asked for.

        Raises:
            VolumeError: It cannot be read; names the file.
        """

    def close(self) -> None:
        """Let go of what is open; nothing is read after that."""


@runtime_checkable
class Records(Protocol):
    """The records that a loader found, in a fixed order; holds nothing open.

    They may have a `split`, one of `Split`: what each rank is given of a global batch.
    Without it that is a share of the rows. They may have `lengths`, as `Measured` says,
    and `held_bytes`, as `Holding` does, from which memory is planned exactly.
    """

    @property
    def buffer(self) -> int | None:
        """How many neighbours `reader.shuffle` may mix; 0: none. None: any records."""

    def __len__(self) -> int:
        """How many there are."""

    def where(self, number: int) -> str:
        """A record's place in words, for messages: its file and line, say."""

    def digest(self) -> str:
        """A text that differs where the records do; paths and times have no part in it.

        A run that goes on must find the same.
        """


@runtime_checkable
class IndexedRecords(Records, Protocol):
    """Records that can be read in any order."""

    def start(self) -> RecordReader:
        """A reader for one worker."""


@runtime_checkable
class StreamedRecords(Records, Protocol):
    """Records that come one after the other; `buffer` is a number."""

    def stream(self, first: int) -> Iterator[bytes]:
        """All records from number `first` on; who cannot seek reads and drops others.

        It may be a generator: it is closed when no more records are needed. Several
        may be at work at the same time, one for each lane.

        Raises:
            VolumeError: One cannot be read; names the file.
        """


@runtime_checkable
class Loader(Protocol):
    """A configured place that records come from."""

    def records(self) -> IndexedRecords | StreamedRecords:
        """Find out which records there are.

        Raises:
            VolumeError: The files are not what they should be; says which, and what to
                do.
        """
