"""`dtsflow run`: stream the batches of every epoch into the consumer."""

import shlex
from itertools import islice

from dtsflow.api import start
from dtsflow.cli.overrides import configure
from dtsflow.cli.progress import Progress
from dtsflow.cli.summary import summary
from dtsflow.consumer.consumer import Setting, Sink
from dtsflow.run import Run
from dtsflow.seed.address import PHASE, phase_number


def main(words: list[str]) -> int:
    """Run what `words` configure, show progress, and sum it up."""
    configured = configure("run", "Stream batches as configured.", words)
    command = shlex.join(["dtsflow", *words])
    with start(configured.composed.values, command=command) as run:
        stream(run)
        report = run.report()
        print(summary(report, run))
    return 0


def stream(run: Run) -> None:
    """Deliver every epoch to the configured consumer; its results go into the run."""
    pipeline = run.plan.pipeline
    sink = pipeline.consumer.open(_setting(run))
    left = pipeline.max_steps or pipeline.epochs * run.plan.order.steps
    for epoch in range(pipeline.epochs):
        if left <= 0:
            break
        left -= _stream_epoch(run, epoch, sink, left)
    run.results.update(sink.results())


def _stream_epoch(run: Run, epoch: int, sink: Sink, most: int) -> int:
    batches = run.epoch(epoch)
    steps = min(len(batches), most)
    with Progress(f"epoch {epoch}", steps) as progress:
        for done, batch in enumerate(islice(batches, steps), 1):
            sink.take(batch)
            progress.show(done, images=int(batch.valid.sum()))
    return steps


def _setting(run: Run) -> Setting:
    plan = run.plan
    return Setting(
        folder=run.folder.path if run.folder is not None else None,
        class_names=plan.volumes.class_names,
        normalize=plan.pipeline.po.normalize,
        phases={PHASE: phase_number(PHASE)},
    )
