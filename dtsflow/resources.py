"""What a run holds: memory, threads and open files."""

import os
import threading
from functools import partial

from dtsflow.arena.host import HostArena
from dtsflow.errors import ClosedError
from dtsflow.plan import Plan
from dtsflow.reader.row_table import RowTable
from dtsflow.reader.store import Store
from dtsflow.state import State
from dtsflow.station.bad_samples import BadSample, BadSamples
from dtsflow.station.engine import Address, Engine, StageTimes
from dtsflow.station.filler import Filler
from dtsflow.station.substitutes import Substitutes
from dtsflow.station.turns import ZONES, Turns
from dtsflow.station.workers import Workers
from dtsflow.telemetry.folder import RunFolder


class Resources:
    """Everything that a run must let go of.

    It never refers to the run, so that an abandoned run can be collected and its
    finalizer can close this.
    """

    def __init__(self, plan: Plan, folder: RunFolder | None, start: State) -> None:
        pipeline = plan.pipeline
        self.folder = folder
        self.arena: HostArena = pipeline.arena.open(plan.memory, plan.stored_channels)
        self.engines: list[Engine] = [plan.engine() for _ in range(plan.workers)]
        self.workers = Workers(plan.workers)
        try:
            self.store: Store = plan.open_store(start.epoch, start.step)
        except BaseException:
            self.workers.close()
            raise
        self._poison = pipeline.station.poison
        self._substitutes = Substitutes(plan.volumes, plan.selection)
        self._bad_samples: BadSamples | None = None
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
            self.end(self._turns)
        timeout_s = plan.pipeline.station.timeout_s
        # The pass before may still be reading the memory that the next one loads into.
        self.workers.settle(timeout_s)
        self._turns = turns
        order = plan.order.epoch(epoch)
        self.store.begin(order, turns.steps, timeout_s)
        table = RowTable(order, plan.lanes, plan.rows, plan.selection)
        address = Address(plan.order.seed, epoch, plan.order.phase)
        bad = BadSamples(
            plan.pipeline.decode.on_error,
            plan.volumes,
            self._substitutes,
            address,
            stop=lambda: turns.is_closed,
        )
        self._bad_samples = bad
        make = partial(Filler, self.store, table, self.arena.zones, plan.chunk_rows, bad)
        self.workers.begin(turns, partial(_filler, make, self.engines), timeout_s=timeout_s)

    def bad_samples(self, turns: Turns, step: int) -> list[BadSample]:
        """The bad samples of a filled batch, by row; they are given once."""
        if turns is not self._turns or self._bad_samples is None:
            return []
        return self._bad_samples.of_batch(step)

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
            self.store.end()
            # Both may hold an error whose frames hold the run.
            self._turns = self._bad_samples = None

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
