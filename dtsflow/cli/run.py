"""`dtsflow run`: stream the batches of every epoch into the consumer.

Signals end a run after the batch in hand, with its state written. A finished run is
summed up on one screen.
"""

import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any, Self

from dtsflow.api import start
from dtsflow.cli.overrides import configure
from dtsflow.cli.terminal import SIGNALLED, Progress
from dtsflow.consumer.consumer import PhaseSetting, Resumable, Setting, Start
from dtsflow.memory.drawing import human_bytes
from dtsflow.pipeline.checkpoint import StopRequest
from dtsflow.pipeline.plan import Plan
from dtsflow.pipeline.run import Pass, Run
from dtsflow.report.bad_samples import BAD_SAMPLES

# SIGUSR1: what Slurm can send ahead of the end (`--signal=USR1@60`); Windows has none.
_NAMES = ("SIGINT", "SIGTERM", "SIGUSR1")
_SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
_TWICE_S = 1.0  # a launcher may pass on the Ctrl-C that the terminal sent already


class Signals:
    """Stops a run on Ctrl-C, SIGTERM or SIGUSR1, while a `with` lasts.

    A second Ctrl-C is a KeyboardInterrupt, as without this. Signals that the process
    ignores stay ignored; outside the main thread nothing changes. The handlers of
    before are back afterwards.

    Attributes:
        came: The first signal that came.
    """

    def __init__(self, stopping: StopRequest) -> None:
        self.came: signal.Signals | None = None
        self._stopping = stopping
        self._handled_at: float | None = None
        self._held = ExitStack()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            with ExitStack() as held:
                self._listen(held)
                for number in _SIGNALS:
                    self._handle(number, held)
                self._held = held.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._held.close()

    def _listen(self, held: ExitStack) -> None:
        """Start the thread that stops the run; it learns of signals from Python's core.

        A handler runs in the main thread, in the midst of whatever that does, with its
        locks held: it could not stop anything. Nor need it run at all while the main
        thread waits, if the signal came just before it began to.
        """
        told, tell = socket.socketpair()
        held.callback(told.close)
        thread = threading.Thread(
            target=self._stop_when_told, args=(told,), name="dtsflow-signals", daemon=True
        )
        thread.start()
        held.callback(thread.join)
        held.callback(tell.close)  # which ends the thread
        tell.settimeout(0)  # what is full already tells enough
        before = signal.set_wakeup_fd(tell.fileno(), warn_on_full_buffer=False)
        held.callback(signal.set_wakeup_fd, before)

    def _stop_when_told(self, told: socket.socket) -> None:
        while numbers := told.recv(64):
            for number in numbers:
                if number in _SIGNALS:
                    self.came = self.came or signal.Signals(number)
                    self._stopping.ask()

    def _handle(self, number: signal.Signals, held: ExitStack) -> None:
        before = signal.getsignal(number)
        if before not in (signal.SIG_IGN, None):  # None: one that could not be put back
            signal.signal(number, self._came)
            held.callback(signal.signal, number, before)

    def _came(self, number: int, _frame: FrameType | None) -> None:
        """Let no batch be handed out any more; the thread may be a little later."""
        self.came = self.came or signal.Signals(number)
        self._stopping.wish()
        now = time.monotonic()
        if self._handled_at is None:
            self._handled_at = now
        elif number == signal.SIGINT and now - self._handled_at > _TWICE_S:
            raise KeyboardInterrupt


def summary(report: dict[str, Any], run: Run) -> str:
    """Return the report in a few lines that a person reads."""
    grown = report["peak_rss_bytes"] - report["rss_before_bytes"]
    stages = report["stages"]
    busy = {name: stages[name] for name in ("read", "decode", "po", "native") if stages[name]}
    work = sum(busy.values()) or 1.0
    shares = "   ".join(f"{name} {took:.2f} s ({took / work:.0%})" for name, took in busy.items())
    lines = [
        *_resumed(report, run),
        ("images", f"{report['images']:,} in {report['steps']:,} steps"),
        *_phases(report),
        *_bad(report["bad_samples"], run),
        ("speed", f"{report['images_per_s']:,.0f} images/s with {report['workers']} workers"),
        *_ranks(report),
        ("first batch", f"{report['first_batch_s']:.2f} s after opening the plan"),
        ("workers", shares),
        ("consumer", f"waited {stages['wait']:.2f} s for batches"),
        (
            "memory",
            f"{human_bytes(grown)} more at peak, {human_bytes(report['plan_bytes'])} planned",
        ),
    ]
    if report["digest"]:
        digests = {key: report["digest"][key] for key in ("samples", "sequence")}
        lines += [(f"digest {key}", digest) for key, digest in digests.items() if digest]
    if "sheet" in report:
        lines.append(("sheet", str(_short(Path(report["sheet"])))))
    if run.folder is not None:
        lines.append(("written to", f"{_short(run.folder.path)}/"))
    return "\n".join(f"{name:<16} {text}" for name, text in lines)


def _bad(count: int, run: Run) -> list[tuple[str, str]]:
    if not count:
        return []
    names = {"mask": "masked", "replace": "replaced"}
    actions = {of.phase.decode.on_error for of in run.plan.phases.values()} & names.keys()
    done = " or ".join(sorted(names[action] for action in actions))
    listed = "" if run.folder is None else f", listed in {BAD_SAMPLES}"
    return [("bad samples", f"{count:,} {done}{listed}")]


def _resumed(report: dict[str, Any], run: Run) -> list[tuple[str, str]]:
    if (start := report["resumed_from"]) is None:
        return []
    return [("went on", f"at {place(run.plan, **start)}")]


def _ranks(report: dict[str, Any]) -> list[tuple[str, str]]:
    if "ranks" not in report:
        return []
    spread, waited = report["spread"]["images_per_s"], report["spread"]["wait_s"]
    speeds = "/".join(f"{spread[key]:,.0f}" for key in ("min", "median", "max"))
    waits = "/".join(f"{waited[key]:.2f}" for key in ("min", "median", "max"))
    told = f"{len(report['ranks'])}: {speeds} images/s, waited {waits} s (min/median/max)"
    return [("ranks", told)]


def _phases(report: dict[str, Any]) -> list[tuple[str, str]]:
    phases = report["phases"]
    if len(phases) == 1:
        return []
    return [
        (f"  {name}", f"{of['images']:,} in {of['steps']:,} steps") for name, of in phases.items()
    ]


def place(plan: Plan, phase: str, epoch: int, step: int) -> str:
    """Return a place in a run, in words."""
    of_phase = "" if len(plan.phases) == 1 else f"{phase}, "
    return f"{of_phase}epoch {epoch:,}, step {step:,} of {plan.phases[phase].order.steps:,}"


def _short(path: Path) -> Path:
    """`path` from the current folder on, if it lies there."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


ABOUT = "Stream batches as configured."


def main(words: list[str]) -> int:
    """Run what `words` configure, show progress, and sum it up.

    A signal ends the run after the batch in hand; the status is then 128 + its number.
    """
    configured = configure("run", ABOUT, words)
    return perform(configured.composed.values, shlex.join(["dtsflow", *words]))


def perform(
    values: Mapping[str, Any],
    command: str,
    tell: Callable[[dict[str, Any], Run], str] = summary,
) -> int:
    """Run what a composed tree describes, and `tell` of it; returns the exit status."""
    with start(values, command=command) as run:
        is_first = run.plan.rank.index == 0
        if is_first and run.start != run.plan.beginning:
            print(f"going on at {_place(run)}")
        with Signals(run.stopping) as signals:
            stream(run)
            run.close()  # a second signal must not come before the state is written
        if is_first:
            print(tell(run.report(), run))
    if not run.stopping.ended or signals.came is None:  # None: only other ranks got the signal
        return 0
    if is_first:
        told = f"stopped by {signals.came.name} at {_place(run)}; go on with resume=auto"
        print(f"dtsflow: {told}", file=sys.stderr)
    return SIGNALLED + signals.came


def stream(run: Run) -> None:
    """Deliver what is left of the run to its consumer, whose results go into it."""
    sink = run.plan.pipeline.consumer.open(_setting(run))
    run.companion = sink if isinstance(sink, Resumable) else None
    for batches in run.passes():
        title = _title(run, batches)
        if run.plan.rank.index:  # one rank's progress is enough to see
            for batch in batches:
                sink.take(batch)
            sink.finish(batches.phase, batches.epoch)
            continue
        with Progress(title, len(batches)) as progress:
            for done, batch in enumerate(batches, 1):
                sink.take(batch)
                progress.show(done, images=int(batch.valid.sum()))
        if not run.stopping.ended and (told := sink.finish(batches.phase, batches.epoch)):
            print(f"{title}: {told}")
    run.results.update(sink.results())


def _place(run: Run) -> str:
    state = run.state()
    return place(run.plan, state.phase, state.epoch, state.step)


def _title(run: Run, batches: Pass) -> str:
    of_phase = "" if len(run.plan.phases) == 1 else f"{batches.phase}, "
    return f"{of_phase}epoch {batches.epoch}"


def _setting(run: Run) -> Setting:
    phases = {
        name: PhaseSetting(
            number=plan.order.phase,
            class_names=plan.volumes.class_names,
            normalize=None if plan.fields else plan.phase.image_chain.normalize,
            pixels=plan.pixels,
            steps=plan.order.steps,
            fields=plan.fields[-1] if plan.fields else plan.columns,
        )
        for name, plan in run.plan.phases.items()
    }
    start = None
    if run.start != run.plan.beginning:
        start = Start(run.start.phase, run.start.epoch, run.start.step, run.origin)
    return Setting(
        folder=run.folder.path if run.folder is not None else None,
        phases=phases,
        epochs=run.plan.pipeline.epochs,
        seed=run.plan.pipeline.seed,
        start=start,
        rank=run.plan.rank,
    )
