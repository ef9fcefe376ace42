"""The run: the only phase that holds files, memory and threads."""

import logging
import operator
import time
import weakref
from collections.abc import Iterator
from typing import Any, Self

from dtsflow.arena.batch import Batch
from dtsflow.errors import ClosedError, PlanError
from dtsflow.plan import Plan
from dtsflow.resources import Resources
from dtsflow.seed.address import PHASE
from dtsflow.station.engine import StageTimes
from dtsflow.station.turns import ZONES, Turns
from dtsflow.telemetry.counters import Counters
from dtsflow.telemetry.folder import RunFolder
from dtsflow.telemetry.memory import reset_peak, resident_bytes
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
        reset_peak()
        self.counters = Counters(opened=time.perf_counter(), rss_before=resident_bytes())
        self._resources: Resources | None = Resources(plan, folder)
        self._times = StageTimes()
        self._failed = False
        self._closer = weakref.finalize(self, self._resources.close)

    def epoch(self, epoch: int, phase: str = PHASE, *, start_step: int = 0) -> "Pass":
        """The batches of one epoch, from global batch `start_step` on.

        Nothing is filled before the first batch is asked for. Beginning another pass
        ends this one.

        Raises:
            PlanError: There is no such phase, epoch or step.
            ClosedError: The run is closed.
        """
        steps = self.plan.order.steps
        if self._resources is None:
            raise ClosedError("The run is closed: open the plan again to read more batches.")
        if phase != PHASE:
            raise PlanError(f"There is no phase {phase!r}; this run has {PHASE!r} only.")
        epoch, start_step = _whole("epoch", epoch), _whole("start_step", start_step)
        if not 0 <= epoch < 1 << 32:
            raise PlanError(f"epoch={epoch} is out of range: epochs are 0 to 2**32 - 1.")
        if not 0 <= start_step <= steps:
            raise PlanError(f"start_step={start_step} is out of range: an epoch has {steps} steps.")
        return Pass(self, self._resources, epoch, range(start_step, steps))

    def close(self) -> None:
        """End all threads; a run with a folder writes its report, unless it failed.

        The memory is free once nothing refers to a batch any more.
        """
        resources, self._resources = self._resources, None
        self._closer()
        if resources is not None:
            self._times = resources.times
            if self.folder is not None and not self._failed:
                self.folder.write_report(self.report())

    def report(self) -> dict[str, Any]:
        """What report.json holds; `results` are the consumer's part of it."""
        command = "" if self.folder is None else self.folder.command
        times = self._times if self._resources is None else self._resources.times
        return report(self.plan, self.counters, times, self.results, command)

    def fail(self) -> None:
        """Remember that the run did not go as planned, so that it writes no report."""
        self._failed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self.fail()
        self.close()


def _whole(name: str, value: int) -> int:
    try:
        return operator.index(value)
    except TypeError as error:
        raise PlanError(f"{name}={value!r} is no whole number.") from error


class Pass:
    """The batches of one epoch; `len` is right before the first one is made."""

    def __init__(self, run: Run, resources: Resources, epoch: int, steps: range) -> None:
        self._run = run  # kept, so that a run lives as long as its passes
        self._resources = resources
        self._epoch, self._steps = epoch, steps

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Batch]:
        run, resources = self._run, self._resources
        plan = run.plan
        if not self._steps:
            return
        turns = Turns(self._steps, chunks=plan.chunks)
        delivered = 0
        asked = time.perf_counter()
        try:
            resources.begin(plan, self._epoch, turns)
            for _ in self._steps:
                step = turns.wait(plan.pipeline.station.timeout_s, resources.store.progress)
                batch = self._batch(step)
                run.counters.delivered(batch.valid, asked)
                delivered += 1
                yield batch
                asked = time.perf_counter()
                resources.release(turns, step)
        except (ClosedError, GeneratorExit):
            raise  # a pass may be left early
        except BaseException:
            run.fail()
            raise
        finally:
            resources.end(turns)
            log.info("epoch %d: %d of %d steps", self._epoch, delivered, len(self))

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
