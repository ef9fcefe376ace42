"""`dtsflow run`: stream the batches of every epoch into the consumer."""

import shlex
import sys
from collections.abc import Callable, Mapping
from typing import Any

from dtsflow.api import start
from dtsflow.cli.overrides import configure
from dtsflow.cli.progress import Progress
from dtsflow.cli.signals import Signals
from dtsflow.cli.status import SIGNALLED
from dtsflow.cli.summary import place, summary
from dtsflow.consumer.consumer import PhaseSetting, Resumable, Setting, Start
from dtsflow.run import Pass, Run

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
    if not run.stopping.ended or signals.came is None:  # None: only other ranks were told
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
