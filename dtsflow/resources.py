"""What a run holds: memory, threads and open files."""

import os
import threading
from functools import partial

from dtsflow.arena.host import HostArena
from dtsflow.errors import ClosedError
from dtsflow.plan import Plan
from dtsflow.reader.resident import ResidentStore
from dtsflow.reader.row_table import RowTable
from dtsflow.station.engine import Address, Engine, StageTimes
from dtsflow.station.filler import Filler
from dtsflow.station.turns import ZONES, Turns
from dtsflow.station.workers import Workers
from dtsflow.telemetry.folder import RunFolder


class Resources:
    """Everything that a run must let go of.

    It never refers to the run, so that an abandoned run can be collected and its
    finalizer can close this.
    """

    def __init__(self, plan: Plan, folder: RunFolder | None) -> None:
        pipeline = plan.pipeline
        self.folder = folder
        self.arena: HostArena = pipeline.arena.open(plan.memory, plan.stored_channels)
        self.engines: list[Engine] = [plan.engine() for _ in range(plan.workers)]
        self.workers = Workers(plan.workers)
        try:
            delivery = plan.order.epoch(0).delivery(plan.lanes)
            self.store: ResidentStore = pipeline.reader.open(plan.volumes, delivery)
        except BaseException:
            self.workers.close()
            raise
        self._poison = pipeline.station.poison
        self._turns: Turns | None = None
        self._closed = False
        self._process = os.getpid()

    def begin(self, plan: Plan, epoch: int, turns: Turns) -> None:
        """Let the workers fill the batches of a new pass; an earlier pass ends."""
        if self._closed:
            raise ClosedError("The run is closed: open the plan again to read more batches.")
        if os.getpid() != self._process:
            raise ClosedError(
                f"The run was opened in process {self._process}, and a fork has none of its "
                f"threads: open the plan in process {os.getpid()} itself."
            )
        if self._turns is not None:
            self._turns.close()
        self._turns = turns
        table = RowTable(plan.order.epoch(epoch), plan.lanes, plan.rows)
        address = Address(plan.order.seed, epoch, plan.order.phase)
        make = partial(Filler, self.store, table, address, self.arena.zones, plan.chunk_rows)
        self.workers.begin(
            turns,
            partial(_filler, make, self.engines),
            timeout_s=plan.pipeline.station.timeout_s,
        )

    def release(self, turns: Turns, step: int) -> None:
        """Give a batch's zone back to the workers, unless its pass has ended."""
        if turns is self._turns:
            if self._poison:
                self.arena.zones[step % ZONES].poison()
            turns.drain()

    def end(self, turns: Turns) -> None:
        """End a pass; workers leave it on their own, whatever they wait for."""
        turns.close()
        if turns is self._turns:
            self._turns = None

    @property
    def times(self) -> StageTimes:
        """Seconds spent in each stage so far, summed over the workers."""
        return StageTimes.sum_of(engine.times for engine in self.engines)

    def close(self) -> None:
        """End all threads and the log; closing again does nothing."""
        self._closed = True
        if os.getpid() != self._process:
            return  # the threads are the parent's, and so are the locks they may hold
        if self._turns is not None:
            self._turns.close()
        # Collected inside one of its threads, which may hold a lock others want, it
        # must not wait for them; they end by themselves.
        own = {*self.store.threads, *self.workers.threads}
        wait = threading.current_thread() not in own
        self.store.close(wait=wait)
        self.workers.close(wait=wait)
        if self.folder is not None:
            self.folder.close()


def _filler(make: "partial[Filler]", engines: list[Engine], worker: int) -> Filler:
    return make(engines[worker])
