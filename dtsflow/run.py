"""The run: the only phase that holds files, memory and threads."""

import logging
import operator
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from dtsflow.arena.batch import Batch
from dtsflow.course import Place, Stopping
from dtsflow.errors import ClosedError, PlanError
from dtsflow.plan import Plan
from dtsflow.resources import Resources
from dtsflow.seed.address import PHASE
from dtsflow.state import STATE, State
from dtsflow.station.bad_samples import BadSample
from dtsflow.station.engine import StageTimes
from dtsflow.station.turns import ZONES, Turns
from dtsflow.telemetry.bad_sample_log import BadRow, BadSampleLog
from dtsflow.telemetry.counters import Counters
from dtsflow.telemetry.folder import RunFolder
from dtsflow.telemetry.memory import reset_peak, resident_bytes
from dtsflow.telemetry.report import report

log = logging.getLogger(__name__)

SAVE_S = 30.0  # what a run that is killed loses at the most, if an epoch lasts longer


class Run:
    """A run at work: `for batch in run: …`; close it, or use it in a `with`.

    Made by `Plan.open`, which allocates the memory, starts the threads and begins to
    read. An abandoned run closes itself when it is collected or the interpreter ends.

    Attributes:
        plan: What is run.
        folder: Where it keeps what is left of it, None if nowhere.
        start: Where it began, or goes on.
        results: What the consumer adds to the report.
        counters: What was delivered so far.
        stopping: The wish that it end.
    """

    def __init__(self, plan: Plan, folder: RunFolder | None, start: State | None = None) -> None:
        self.plan = plan
        self.folder = folder
        self.start = start or State(PHASE, 0, 0, plan.fingerprint())
        self.results: dict[str, Any] = {}
        reset_peak()
        self.counters = Counters(opened=time.perf_counter(), rss_before=resident_bytes())
        self._resources: Resources | None = Resources(plan, folder, self.start)
        decode, path = plan.pipeline.decode, None if folder is None else folder.path
        self._bad_samples = BadSampleLog(decode.on_error, decode.max_errors, path)
        self._times = StageTimes()
        self._retries = 0
        self.stopping = Stopping()
        self._place = Place(self.start.epoch, self.start.step)
        self._saved = time.monotonic()
        self._failed = False
        self._closer = weakref.finalize(self, self._resources.close)

    def __iter__(self) -> Iterator[Batch]:
        """All batches of the run as configured, from `start` on; see `passes`."""
        for batches in self.passes():
            yield from batches

    def passes(self) -> Iterator["Pass"]:
        """The passes of the run as configured: what is left of `epochs` at `start`.

        They end after `max_steps` batches, those before `start` not counted, and when
        the run was asked to stop.
        """
        pipeline, steps = self.plan.pipeline, self.plan.order.steps
        if self.start.epoch >= pipeline.epochs:
            log.warning(
                "nothing is left to do: the run goes on at epoch %d, step %d, and epochs=%d",
                *(self.start.epoch, self.start.step, pipeline.epochs),
            )
        left = pipeline.max_steps or pipeline.epochs * steps
        first = self.start.step
        for epoch in range(self.start.epoch, pipeline.epochs):
            if left <= 0 or self.stopping.ends():
                break
            batches = self.epoch(epoch, start_step=first, steps=left)
            left, first = left - len(batches), 0
            yield batches

    def epoch(
        self,
        epoch: int,
        phase: str = PHASE,
        *,
        start_step: int = 0,
        steps: int | None = None,
    ) -> "Pass":
        """The batches of one epoch from global batch `start_step` on, at most `steps`.

        Nothing is filled before the first batch is asked for. Beginning another pass
        ends this one.

        Raises:
            PlanError: There is no such phase, epoch or step.
            ClosedError: The run is closed.
        """
        last = self.plan.order.steps
        if self._resources is None:
            raise ClosedError("The run is closed: open the plan again to read more batches.")
        if phase != PHASE:
            raise PlanError(f"There is no phase {phase!r}; this run has {PHASE!r} only.")
        epoch, start_step = _whole("epoch", epoch), _whole("start_step", start_step)
        if not 0 <= epoch < 1 << 32:
            raise PlanError(f"epoch={epoch} is out of range: epochs are 0 to 2**32 - 1.")
        if not 0 <= start_step <= last:
            raise PlanError(f"start_step={start_step} is out of range: an epoch has {last} steps.")
        if steps is not None:
            last = min(last, start_step + max(0, _whole("steps", steps)))
        return Pass(self, self._resources, epoch, range(start_step, last))

    @property
    def bad_samples(self) -> list[BadRow]:
        """The first thousand rows that were masked or have a substitute.

        `counters.bad_samples` counts them all, and the run folder lists them.
        """
        return list(self._bad_samples.first)

    def note(self, bad: list[BadSample], epoch: int, step: int) -> None:
        """Enter the bad samples of a batch that is about to be handed out.

        Raises:
            DecodeError: They are more than `decode.max_errors`.
        """
        if bad:
            first_row = self.plan.first_row
            self._bad_samples.take(bad, phase=PHASE, epoch=epoch, step=step, first_row=first_row)
            self.counters.bad_samples = self._bad_samples.count

    def enter(self, place: Place) -> None:
        """Make the place of a pass the run's own, unless the run is to end."""
        if not self.stopping.asked:
            self._place = place

    def state(self) -> State:
        """Where the run goes on: at the first batch that was not handed out yet.

        In a loop's body that is the batch after the one in hand, so save the state when
        that one was used. After a failure it is the one that was in hand, if there was
        one: what became of it is not known. It has an answer at any time, also before
        the first batch and after `close`.
        """
        epoch, step = self._place.epoch, self._place.handed_out
        if step >= self.plan.order.steps:
            epoch, step = epoch + 1, 0
        return State(PHASE, epoch, step, self.start.fingerprint)

    def save(self, *, every_s: float = 0.0) -> None:
        """Write the state into the run folder, unless that was done `every_s` ago.

        Does nothing without a folder. A disk that refuses is logged, for the run itself
        can go on.
        """
        if self.folder is None or time.monotonic() - self._saved < every_s:
            return
        self._saved = time.monotonic()
        try:
            self._write_state(self.folder)
        except OSError as error:
            log.warning("the run's state cannot be written: %s", error)

    def _write_state(self, folder: RunFolder, *, durable: bool = False) -> None:
        state = self.state()
        if not state.is_beginning:  # a run that is started anew begins there, too
            folder.write(STATE, state.to_json(), durable=durable)

    def stop(self) -> None:
        """End the loop after the batch in hand; any thread may ask, no signal handler.

        The run then counts as unfinished: with a folder, `close` writes its state and
        the report of this part.
        """
        self.stopping.ask()

    def close(self) -> None:
        """End all threads; a run with a folder writes its report, or where it goes on.

        It goes on if it failed or was stopped; with a report it counts as finished.
        The memory is free once nothing refers to a batch any more.
        """
        resources, self._resources = self._resources, None
        try:
            if resources is not None and self.folder is not None:
                self._save_rest(self.folder)  # first, for threads may take a second to end
        finally:
            self._closer()
        if resources is not None:
            self._times, self._retries = resources.times, resources.store.retries
            if self.folder is not None and not self._failed:
                self._write_report(self.folder)

    def _save_rest(self, folder: RunFolder) -> None:
        if self._failed:
            self.save()  # what it failed with matters more than that this fails, too
        elif self.stopping.ended:
            self._write_state(folder, durable=True)

    def _write_report(self, folder: RunFolder) -> None:
        if not self.stopping.ended:
            folder.write_report(self.report())
        elif self.counters.steps:
            folder.write_part(self.report())

    def report(self) -> dict[str, Any]:
        """What report.json holds; `results` are the consumer's part of it."""
        command = "" if self.folder is None else self.folder.command
        times, retries = self._times, self._retries
        if self._resources is not None:
            times, retries = self._resources.times, self._resources.store.retries
        start = self.start
        resumed = None if start.is_beginning else {"epoch": start.epoch, "step": start.step}
        told = report(self.plan, self.counters, times, self.results, command)
        mode, reason = self.plan.reading
        reader = {"mode": mode, "reason": reason, "io_retries": retries}
        return {**told, "reader": reader, "resumed_from": resumed}

    def fail(self) -> None:
        """Remember that the run did not go as planned, so that it writes no report."""
        self._failed = True
        self._place.fail()

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
    """The batches of one epoch; `len` is right before the first one is made.

    Attributes:
        epoch: The epoch.
    """

    def __init__(self, run: Run, resources: Resources, epoch: int, steps: range) -> None:
        self._run = run  # kept, so that a run lives as long as its passes
        self._resources = resources
        self.epoch, self._steps = epoch, steps

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Batch]:
        run, resources = self._run, self._resources
        plan = run.plan
        place = Place(self.epoch, self._steps.start)
        if not self._steps:
            run.enter(place)
            return
        turns = Turns(self._steps, chunks=plan.chunks)
        asked = time.perf_counter()
        with self._at_work(turns, place):
            run.stopping.watch(turns)
            run.enter(place)
            resources.begin(plan, self.epoch, turns)
            for _ in self._steps:
                run.stopping.check()
                step = turns.wait(plan.pipeline.station.timeout_s, resources.store.progress)
                run.note(resources.bad_samples(turns, step), self.epoch, step)
                batch = self._batch(step)
                run.counters.delivered(batch.valid, asked)
                place.hand_out()
                yield batch
                place.finish()
                asked = time.perf_counter()
                resources.release(turns, step)
                run.save(every_s=SAVE_S)
            run.save()

    @contextmanager
    def _at_work(self, turns: Turns, place: Place) -> Iterator[None]:
        """See that the pass ends, however it does; quietly if the run was stopped."""
        run = self._run
        try:
            yield
        except GeneratorExit:
            raise  # a pass may be left early
        except ClosedError:
            if not run.stopping.ends():
                raise
        except BaseException:
            run.fail()
            raise
        finally:
            run.stopping.leave(turns)
            self._resources.end(turns)
            delivered = place.handed_out - self._steps.start
            log.info("epoch %d: %d of %d steps", self.epoch, delivered, len(self))

    def _batch(self, step: int) -> Batch:
        zone = self._resources.arena.zones[step % ZONES]
        return Batch(
            images=zone.images,
            padded=zone.padded,
            labels=zone.labels,
            valid=zone.valid,
            sample_ids=zone.sample_ids,
            phase=PHASE,
            epoch=self.epoch,
            step=step,
            first_row=self._run.plan.first_row,
            zone=step % ZONES,
        )
