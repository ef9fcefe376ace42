"""The run: the only phase that holds files, memory and threads."""

import logging
import time
import weakref
from collections.abc import Iterator
from functools import partial
from types import TracebackType
from typing import Any, Self

from dtsflow.arena.batch import Batch
from dtsflow.arena.host import HostArena
from dtsflow.errors import ClosedError, PlanError
from dtsflow.pipeline import PHASE
from dtsflow.plan import Plan
from dtsflow.reader.resident import ResidentStore
from dtsflow.reader.row_table import RowTable
from dtsflow.station.filler import Address, Filler, StageTimes, Tools
from dtsflow.station.turns import ZONES, Turns
from dtsflow.station.workers import Workers
from dtsflow.telemetry.counters import Counters
from dtsflow.telemetry.folder import RunFolder
from dtsflow.telemetry.memory import resident_bytes
from dtsflow.telemetry.report import report

log = logging.getLogger(__name__)


class Run:
    """A run at work: `for batch in run.epoch(0): …`; close it, or use it in a `with`.

    Made by `Plan.open`, which allocates the memory, starts the threads and begins to
    read. An abandoned run closes itself when it is collected or the interpreter ends.
    """

    def __init__(self, plan: Plan, folder: RunFolder | None) -> None:
        self.plan = plan
        self.folder = folder
        self.results: dict[str, Any] = {}
        self.counters = Counters(opened=time.perf_counter(), rss_before=resident_bytes())
        self._resources = _Resources(plan)
        self._closer = weakref.finalize(self, self._resources.close)

    def epoch(self, epoch: int, phase: str = PHASE, *, start_step: int = 0) -> "Pass":
        """The batches of one epoch, from global batch `start_step` on.

        Nothing is filled before the first batch is asked for. Beginning another pass
        ends this one.

        Raises:
            PlanError: There is no such phase, epoch or step.
        """
        steps = self.plan.order.steps
        if phase != PHASE:
            raise PlanError(f"There is no phase {phase!r}; this run has {PHASE!r} only.")
        if not 0 <= epoch < 1 << 32:
            raise PlanError(f"epoch={epoch} is out of range: epochs are 0 to 2**32 - 1.")
        if not 0 <= start_step <= steps:
            raise PlanError(f"start_step={start_step} is out of range: an epoch has {steps} steps.")
        return Pass(self, self._resources, epoch, range(start_step, steps))

    def close(self) -> None:
        """End all threads; a run with a folder writes its report.

        Batches are not readable afterwards.
        """
        self._end(finished=True)

    def _end(self, *, finished: bool) -> None:
        if self._closer.alive and self.folder is not None:
            if finished:
                self.folder.write_report(self.report())
            self.folder.close()
        self._closer()

    def report(self) -> dict[str, Any]:
        """What report.json holds; `results` are the consumer's part of it."""
        command = "" if self.folder is None else self.folder.command
        times = StageTimes.sum_of(tools.times for tools in self._resources.tools)
        return report(self.plan, self.counters, times, self.results, command)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(finished=error is None)


class Pass:
    """The batches of one epoch; `len` is right before the first one is made."""

    def __init__(self, run: Run, resources: "_Resources", epoch: int, steps: range) -> None:
        self._run = run  # kept, so that a run lives as long as its passes
        self._resources = resources
        self._epoch, self._steps = epoch, steps

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Batch]:
        run, resources = self._run, self._resources
        timeout_s = run.plan.pipeline.station.timeout_s
        turns = resources.begin(run.plan, self._epoch, self._steps)
        try:
            for _ in self._steps:
                asked = time.perf_counter()
                step = turns.wait(timeout_s, resources.store.progress)
                batch = self._batch(step)
                run.counters.delivered(batch.valid, asked)
                yield batch
                resources.release(turns, step)
            log.info("epoch %d: %d steps from %d on", self._epoch, len(self), self._steps.start)
        finally:
            resources.end(turns)

    def _batch(self, step: int) -> Batch:
        zone = self._resources.arena.zones[step % ZONES]
        return Batch(
            images=zone.images,
            padded=zone.padded,
            labels=zone.labels,
            valid=zone.valid,
            sample_ids=zone.sample_ids,
            phase=PHASE,
            epoch=self._epoch,
            step=step,
            first_row=self._run.plan.first_row,
            zone=step % ZONES,
        )


class _Resources:
    """What a run holds, apart from the run, so that it can be released without it."""

    def __init__(self, plan: Plan) -> None:
        pipeline = plan.pipeline
        pixels = plan.specs[-1]
        self.arena: HostArena = pipeline.arena.open(
            plan.memory, pipeline.station.stored_channels(pixels.channels, pixels.dtype)
        )
        every_lane = range(plan.order.lanes)
        self.store: ResidentStore = pipeline.reader.open(
            plan.volumes, plan.order.epoch(0).delivery(every_lane)
        )
        self.tools = [
            Tools(
                store=self.store,
                decoder=pipeline.decoder(plan.volumes),
                program=pipeline.po.program(plan.volumes.image),
                zones=self.arena.zones,
                where=plan.volumes.where,
                times=StageTimes(),
            )
            for _ in range(plan.workers)
        ]
        self.workers = Workers(plan.workers)
        self._poison = pipeline.station.poison
        self._turns: Turns | None = None
        self._closed = False

    def begin(self, plan: Plan, epoch: int, steps: range) -> Turns:
        """Let the workers fill the batches of a new pass; an earlier pass ends."""
        if self._closed:
            raise ClosedError("The run is closed: open the plan again to read more batches.")
        if self._turns is not None:
            self.end(self._turns)
        turns = Turns(steps, chunks=-(-plan.rows // plan.chunk_rows))
        table = RowTable(plan.order.epoch(epoch), plan.lanes, plan.rows)
        address = Address(plan.order.seed, epoch, plan.order.phase)
        self.workers.begin(
            turns,
            partial(_filler, self.tools, table, address, plan.chunk_rows),
            timeout_s=plan.pipeline.station.timeout_s,
        )
        self._turns = turns
        return turns

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

    def close(self) -> None:
        self._closed = True
        if self._turns is not None:
            self._turns.close()
        self.store.close()
        self.workers.close()


def _filler(
    tools: list[Tools], table: RowTable, address: Address, chunk_rows: int, worker: int
) -> Filler:
    return Filler(tools[worker], table, address, chunk_rows)
