"""The run: the only phase that holds files, memory and threads."""

import json
import logging
import operator
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Any, Self

from dtsflow.arena.arena import Delivery
from dtsflow.arena.batch import Batch
from dtsflow.consumer.consumer import Resumable, Start
from dtsflow.errors import ClosedError, PlanError, RanksError
from dtsflow.pipeline.checkpoint import PassProgress, State, StopRequest
from dtsflow.pipeline.phase_plan import PhasePlan
from dtsflow.pipeline.plan import Plan
from dtsflow.pipeline.resources import Resources
from dtsflow.pipeline.run_folder import RunFolder
from dtsflow.ranks.failure import is_failure, reason_of
from dtsflow.ranks.group import Group, SingleProcess
from dtsflow.report.bad_samples import BadRow, BadSampleLog
from dtsflow.report.counters import Counters
from dtsflow.report.report import ranks_report, report, reset_peak, resident_bytes
from dtsflow.seed.address import PHASE
from dtsflow.station.bad_samples import BadSample
from dtsflow.station.double_buffer import DoubleBuffer
from dtsflow.station.engine import StageTimes
from dtsflow.station.row_cache import RowCount

log = logging.getLogger(__name__)

STOP_S = 6.0  # a launcher tells all ranks at about the same time
SAVE_S = 30.0  # what a run that is killed loses at the most, if an epoch lasts longer


class Run:
    """A run at work: `for batch in run: …`; close it, or use it in a `with`.

    Made by `Run.open`, which allocates the memory, starts the threads and begins to
    read. An abandoned run closes itself when it is collected or the interpreter ends.

    Attributes:
        plan: What is run.
        group: All ranks that run it.
        folder: Where it keeps what is left of it, None if nowhere.
        start: Where it began, or goes on.
        origin: The folder that `start` was found in.
        companion: What is saved together with the state.
        results: What the consumer adds to the report.
        counters: What was delivered so far.
        stopping: The wish that it end.
    """

    def __init__(
        self,
        plan: Plan,
        folder: RunFolder | None,
        start: State | None = None,
        origin: Path | None = None,
        group: Group | None = None,
    ) -> None:
        self.plan = plan
        self.group = group or SingleProcess(plan.rank)
        self.folder = folder
        self.start = start or plan.beginning
        self.origin = origin
        self.companion: Resumable | None = None
        self.results: dict[str, Any] = {}
        reset_peak()
        self.counters = Counters(opened=time.perf_counter(), rss_before=resident_bytes())
        self._resources: Resources | None = Resources(plan, folder, self.start, self.group)
        path = None if folder is None else folder.path
        self._bad_samples = {
            name: BadSampleLog(
                of.phase.decode.on_error, of.phase.decode.max_errors, path, plan.rank.index
            )
            for name, of in plan.phases.items()
        }
        self._times = StageTimes()
        self._retries = dict.fromkeys(plan.phases, 0)
        self._rows: dict[str, RowCount] = {}
        self.stopping = StopRequest()
        self._place = PassProgress(self.start.phase, self.start.epoch, self.start.step)
        self._saved = time.monotonic()
        self._failed = self._leaves = False
        self._joint_end: State | None = None
        self._joint_report: dict[str, Any] | None = None
        if self._is_follower:
            self.save()  # without one a rank that got nowhere would not count
        self._closer = weakref.finalize(self, self._resources.close)

    @classmethod
    def open(
        cls,
        plan: Plan,
        folder: RunFolder | None = None,
        start: State | None = None,
        origin: Path | None = None,
        group: Group | None = None,
    ) -> Self:
        """Allocate the memory of `plan`, start its threads and begin to read.

        With `start` the run goes on there; it must be a state of this plan. `origin` is
        the folder where it was found. All ranks of `group` open their plans together,
        and end together.

        Raises:
            MemoryPlanError: The plan needs more memory than `memory.limit`.
        """
        plan.check_memory()
        return cls(plan, folder, start, origin, group)

    def __iter__(self) -> Iterator[Batch]:
        """Yield all batches of the run as configured, from `start` on; see `passes`."""
        for batches in self.passes():
            yield from batches

    def passes(self) -> Iterator["Pass"]:
        """Yield the passes of the run as configured.

        What is left of `epochs` at `start`.

        An epoch is a pass through each phase. They end after `max_steps` batches, those
        before `start` not counted, and when the run was asked to stop.
        """
        pipeline, start = self.plan.pipeline, self.start
        if start.epoch >= pipeline.epochs:
            log.warning(
                "nothing is left to do: the run goes on at epoch %d, step %d, and epochs=%d",
                *(start.epoch, start.step, pipeline.epochs),
            )
        left = pipeline.max_steps or pipeline.epochs * self.plan.steps
        phase, epoch, first = start.phase, start.epoch, start.step
        while epoch < pipeline.epochs and left > 0 and not self.stopping.ends():
            batches = self.epoch(epoch, phase, start_step=first, steps=left)
            left, first = left - len(batches), 0
            yield batches
            phase, epoch = self.plan.after(phase, epoch)

    def epoch(
        self,
        epoch: int,
        phase: str = PHASE,
        *,
        start_step: int = 0,
        steps: int | None = None,
        stream: Any = None,
    ) -> "Pass":
        """Return a phase's batches of one epoch from `start_step` on, at most `steps`.

        Nothing is filled before the first batch is asked for. Beginning another pass
        ends this one. `stream` is what the consumer works on, where the arena is a
        device's; cupy's current one by default.

        Raises:
            PlanError: The phase, epoch or step does not exist.
            ClosedError: The run is closed.
        """
        if self._resources is None:
            raise ClosedError("The run is closed: open the plan again to read more batches.")
        last = self.plan.phase(phase).order.steps
        epoch, start_step = _whole("epoch", epoch), _whole("start_step", start_step)
        if not 0 <= epoch < 1 << 32:
            raise PlanError(f"epoch={epoch} is out of range: epochs are 0 to 2**32 - 1.")
        if not 0 <= start_step <= last:
            raise PlanError(f"start_step={start_step} is out of range: an epoch has {last} steps.")
        if steps is not None:
            last = min(last, start_step + max(0, _whole("steps", steps)))
        return Pass(self, self._resources, phase, epoch, range(start_step, last), stream)

    @property
    def bad_samples(self) -> list[BadRow]:
        """Return each phase's first thousand rows that were masked or substituted.

        `counters.bad_samples` counts them all, and the run folder lists them.
        """
        return [row for of_phase in self._bad_samples.values() for row in of_phase.first]

    def note(self, bad: list[BadSample], phase: PhasePlan, epoch: int, step: int) -> None:
        """Enter the bad samples of a batch that is about to be handed out.

        Raises:
            DecodeError: They are more than the phase's `decode.max_errors`.
        """
        if bad:
            found = self._bad_samples[phase.name]
            found.take(bad, phase=phase.name, epoch=epoch, step=step, first_row=phase.first_row)
            self.counters.bad(found.count, phase.name)

    def enter(self, place: PassProgress) -> None:
        """Make the place of a pass the run's own, unless the run is to end."""
        if not self.stopping.asked:
            self._place = place

    def state(self) -> State:
        """Return where the run goes on: at the first batch that was not handed out yet.

        In a loop's body that is the batch after the one in hand, so save the state when
        that one was used. After a failure it is the one that was in hand, if there was
        one: what became of it is not known. It has an answer at any time, also before
        the first batch and after `close`.
        """
        if self._joint_end is not None:
            return self._joint_end
        place = self._place
        phase, epoch, step = place.phase, place.epoch, place.handed_out
        if step >= self.plan.phases[phase].order.steps:
            (phase, epoch), step = self.plan.after(phase, epoch), 0
        return State(phase, epoch, step, self.start.fingerprint)

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
        # A run that is started anew begins at the beginning, too.
        if state == self.plan.beginning and not self._is_follower:
            return
        place = Start(state.phase, state.epoch, state.step)
        if self.companion is not None:
            self.companion.save(place)
        folder.write(folder.state.name, state.to_json(), durable=durable)
        if self.companion is not None:
            self.companion.saved(place)

    @property
    def _is_follower(self) -> bool:
        """Tell whether rank 0 is another process, which keeps the run's folder."""
        return not self.group.is_alone and self.group.rank.index > 0

    def stop(self) -> None:
        """End the loop after the batch in hand; any thread may ask, no signal handler.

        The run then counts as unfinished: with a folder, `close` writes its state and
        the report of this part.
        """
        self.stopping.ask()

    def close(self) -> None:
        """End all threads; a run with a folder writes its report, or where it goes on.

        It goes on if it failed or was stopped; with a report it counts as finished.
        The memory is free once nothing refers to a batch any more. All ranks close
        together: who is done waits for the others, which may need blocks that it reads.

        Raises:
            RanksError: This rank was stopped or has failed and others were not, so that
                all of them end.
        """
        resources = self._resources
        try:
            if resources is not None:
                self._end_together()
                self._resources = None
                if self.folder is not None:
                    self._save_rest(self.folder)  # first, for threads may take a second to end
        finally:
            self._resources = None
            self._closer()
        if resources is not None:
            self._times, self._retries = resources.times, resources.retries
            self._rows = resources.row_counts
            if self.folder is not None and not self._failed and not self._is_follower:
                self._write_report(self.folder)

    def _end_together(self) -> None:
        """Tell the other ranks how far this one has come, and hear it of them."""
        group, stopped = self.group, self.stopping.ended
        if group.is_alone or self._leaves:
            return
        if self._failed:
            group.abort("A batch could not be delivered, so the run ends.")
        own = {"stopped": stopped, "state": self.state().to_json(), "report": self.report()}
        try:
            texts = group.gather_texts(json.dumps(own), timeout_s=STOP_S if stopped else inf)
        except RanksError:
            group.abort(f"It was told to stop, and other ranks were not within {STOP_S:g} s.")
        told = [json.loads(text) for text in texts]
        ends = [State.from_json(one["state"]) for one in told]
        if any(one["stopped"] for one in told):
            self.stopping.ended = True
            # Where the one is that has come least far, so that no row is left out.
            self._joint_end = min(ends, key=self.plan.turn)
        if group.rank.index == 0:
            level = not self.stopping.ended or all(end == ends[0] for end in ends)
            self._joint_report = ranks_report([one["report"] for one in told], level=level)

    def _save_rest(self, folder: RunFolder) -> None:
        if self._failed:
            if self.companion is None:  # else it may be in the middle of a batch
                self.save()  # what it failed with matters more than that this fails, too
        elif self._is_follower:
            folder.state.unlink(missing_ok=True)  # rank 0 has the one of all
        elif self.stopping.ended:
            self._write_state(folder, durable=True)

    def _write_report(self, folder: RunFolder) -> None:
        if not self.stopping.ended:
            folder.write_report(self.report())
        elif self.counters.steps:
            folder.write_part(self.report())

    def report(self) -> dict[str, Any]:
        """Return what report.json holds.

        `results` are the consumer's part of it.

        Of several ranks that is a report of this one, until rank 0 closes.
        """
        if self._joint_report is not None:
            return self._joint_report
        command = "" if self.folder is None else self.folder.command
        times, retries, rows = self._times, self._retries, self._rows
        if self._resources is not None:
            times, retries = self._resources.times, self._resources.retries
            rows = self._resources.row_counts
        told = report(self.plan, self.counters, times, self.results, command)
        for name, of_phase in told["phases"].items():
            of_phase["reader"]["io_retries"] = retries[name]
        for name, count in rows.items():
            told["phases"][name]["rows"] = asdict(count)
        return {**told, "resumed_from": self._resumed_from()}

    def _resumed_from(self) -> dict[str, Any] | None:
        start = self.start
        if start == self.plan.beginning:
            return None
        return {"phase": start.phase, "epoch": start.epoch, "step": start.step}

    def fail(self) -> None:
        """Remember that the run did not go as planned, so that it writes no report."""
        self._failed = True
        self._place.fail()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self.fail()
            if is_failure(error, self.group):
                if self.companion is None:
                    self.save()
                self.group.abort(reason_of(error))
            self._leaves = True  # as sys.exit(0) asks for; the others may go on
        self.close()


def _whole(name: str, value: int) -> int:
    try:
        return operator.index(value)
    except TypeError as error:
        raise PlanError(f"{name}={value!r} is no whole number.") from error


class Pass:
    """A phase's batches of one epoch; `len` is right before the first one is made.

    Attributes:
        phase: Name of the phase.
        epoch: The epoch.
    """

    def __init__(  # made in one place only
        self,
        run: Run,
        resources: Resources,
        phase: str,
        epoch: int,
        steps: range,
        stream: Any,
    ) -> None:
        self._run = run  # kept, so that a run lives as long as its passes
        self._resources = resources
        self.phase, self.epoch, self._steps = phase, epoch, steps
        self._plan = run.plan.phases[phase]
        self._stream = stream

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Batch]:
        run, resources = self._run, self._resources
        place = PassProgress(self.phase, self.epoch, self._steps.start)
        if not self._steps:
            run.enter(place)
            return
        double_buffer = DoubleBuffer(self._steps, chunks=self._plan.chunks)
        asked = time.perf_counter()
        with self._at_work(double_buffer, place):
            run.stopping.watch(double_buffer)
            run.enter(place)
            feed = resources.begin(self.phase, self.epoch, double_buffer, self._stream)
            for _ in self._steps:
                run.stopping.check()
                batch = self._batch(feed.take())
                bad = resources.bad_samples(double_buffer, batch.step)
                run.note(bad, self._plan, self.epoch, batch.step)
                run.counters.delivered(batch.valid, asked, self.phase)
                place.hand_out()
                yield batch
                place.finish()
                asked = time.perf_counter()
                feed.give_back()
                run.save(every_s=SAVE_S)
            run.save()

    @contextmanager
    def _at_work(self, double_buffer: DoubleBuffer, place: PassProgress) -> Iterator[None]:
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
            run.stopping.leave(double_buffer)
            self._resources.end(double_buffer)
            delivered = place.handed_out - self._steps.start
            what = (self.phase, self.epoch, delivered, len(self))
            log.info("%s, epoch %d: %d of %d steps", *what)

    def _batch(self, delivery: Delivery) -> Batch:
        images, padded, fields = delivery.images, delivery.padded, delivery.fields
        if self._plan.fields:  # a record's first field lies where images do
            fields = {self._plan.fields[-1][0].name: images, **fields}
            images = padded = None
        return Batch(
            images=images,
            padded=padded,
            labels=delivery.labels,
            valid=delivery.valid,
            sample_ids=delivery.sample_ids,
            phase=self.phase,
            epoch=self.epoch,
            step=delivery.step,
            first_row=self._plan.first_row,
            zone=delivery.zone,
            fields=fields,
        )
