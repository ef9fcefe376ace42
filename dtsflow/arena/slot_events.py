"""What keeps copies and consumers apart at the two input slots of a device."""

from collections.abc import Callable

from dtsflow.arena.cuda import Cuda, Event, Stream
from dtsflow.station.turns import ZONES


class SlotEvents:
    """Two events a slot: `written`, that its batch is there, and `released`.

    A slot is written by the copy stream, then read by a consumer's stream, in turn. All
    waits but `settle` are the device's: no thread stands still for them.

    Args:
        cuda: The device.
    """

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._copies = cuda.stream()
        self._written: list[Event] = [cuda.event() for _ in range(ZONES)]
        self._released: list[Event] = [cuda.event() for _ in range(ZONES)]
        self._readers: list[Stream | None] = [None] * ZONES

    def write(self, zone: int, work: Callable[[Stream], None]) -> None:
        """Let the copy stream do `work` on a slot that was taken back, and mark it."""
        self.overwrite(zone, work)
        self._cuda.record(self._written[zone], self._copies)

    def overwrite(self, zone: int, work: Callable[[Stream], None]) -> None:
        """Let the copy stream do `work` once the slot's last reader is done."""
        self._cuda.wait(self._copies, self._released[zone])
        work(self._copies)

    def settle(self, zone: int) -> None:
        """Wait here until the last write to a slot has run, and its source is free."""
        self._cuda.synchronize(self._written[zone])

    def hand_out(self, zone: int, reader: Stream) -> None:
        """Let later work of `reader` find the slot written."""
        self._cuda.wait(reader, self._written[zone])
        self._readers[zone] = reader

    def take_back(self, zone: int) -> None:
        """Let the slot be free once its reader has done what it was given so far."""
        reader, self._readers[zone] = self._readers[zone], None
        if reader is not None:
            self._cuda.record(self._released[zone], reader)

    def take_back_all(self) -> None:
        """Take back what a pass that was left early still has in hand."""
        for zone in range(ZONES):
            self.take_back(zone)

    def run(self, work: Callable[[Stream], None]) -> None:
        """Let the copy stream do `work` that concerns no slot, and wait for it here."""
        done = self._cuda.event()
        work(self._copies)
        self._cuda.record(done, self._copies)
        self._cuda.synchronize(done)
