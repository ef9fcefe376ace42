"""`dtsflow --multirun`: a run for each combination of the values that keys list."""

import hashlib
import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtsflow.build import build
from dtsflow.cli.counted import counted
from dtsflow.cli.expansion import expand
from dtsflow.cli.launching import launch, parted
from dtsflow.cli.overrides import read_words
from dtsflow.cli.report import table
from dtsflow.cli.run import ABOUT, perform
from dtsflow.cli.status import FAILED, SIGNALLED
from dtsflow.compose import Composed, compose
from dtsflow.errors import ConfigError, RanksError
from dtsflow.ranks.launcher import launched_size
from dtsflow.run import Run
from dtsflow.telemetry.comparison import differing, settings_of
from dtsflow.telemetry.sweep_folder import Job, SweepFolder

# What a job is not known by: where it is kept, and where it goes on.
_NOT_THE_JOB = ("name", "resume")


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep at work; a launcher takes it to other processes.

    Attributes:
        folder: Where it is kept.
        config_dir: The folder of configs that is searched first.
    """

    folder: SweepFolder
    config_dir: Path | None

    def perform(self, job: Job) -> int:
        """Run one job; a failure is kept in its folder. Returns its exit status."""
        folder = self.folder
        folder.begin(job)
        name = f"{folder.name}/{job.number}"
        command = shlex.join(["dtsflow", *job.overrides, f"name={name}"])
        try:
            values = compose(
                job.overrides, values={"name": name}, config_dir=self.config_dir
            ).values
            return perform(values, command, _told)
        except Exception as error:  # noqa: BLE001  # here a job ends, as a process would
            folder.fail(job, error)
            print(f"failed: {folder.failure(job)}", flush=True)
            return FAILED


def main(words: list[str]) -> int:
    """Run the jobs that `words` configure one after the other, and compare them.

    Jobs that are finished are left out, so the same command continues a sweep. The
    status is 1 if a job failed, or 128 + the number of the signal that ended one.
    """
    asked = read_words("run", ABOUT, words)
    if (launched := launched_size(os.environ)) is not None:
        raise RanksError(
            f"--multirun starts its jobs itself, and {launched[0]} says that {launched[1]} "
            "processes were started. Start it alone, or give mpirun one run at a time."
        )
    launcher, overrides = parted(asked.overrides)
    expanded = expand(overrides, asked.config_dir)
    folder, jobs = _entered(expanded, asked.config_dir)
    folder.write(shlex.join(["dtsflow", *words]))
    sweep, left = Sweep(folder, asked.config_dir), [j for j in jobs if not folder.is_finished(j)]
    before = len(jobs) - len(left)
    print(f"{folder.path}/: {counted(len(jobs), 'job')}{f', {before} finished' * (before > 0)}")
    status = launch(launcher, sweep, left) if launcher and left else _one_by_one(sweep, left)
    print(f"\n{table(folder.path)}")
    return status if status >= SIGNALLED else _failures(folder, jobs)


def _entered(
    expanded: Sequence[Sequence[str]], config_dir: Path | None
) -> tuple[SweepFolder, list[Job]]:
    """Compose and build all jobs, so that a typing error ends the sweep at once."""
    composed = [compose(overrides, config_dir=config_dir) for overrides in expanded]
    for job in composed:
        build(job.values)
    wanted = [(list(o), _digest(c.values)) for o, c in zip(expanded, composed, strict=True)]
    return SweepFolder.open(_name(composed)).enter(wanted)


def _name(composed: Sequence[Composed]) -> str:
    names = {job.values.get("name") for job in composed}
    if len(names) > 1:
        raise ConfigError("name: a sweep has one folder, and its jobs are numbered in it.")
    (name,) = names
    if name:
        return str(name)
    experiments = {job.experiment for job in composed}
    experiment = experiments.pop() if len(experiments) == 1 else None
    return f"{experiment}-sweep" if experiment else "sweep"


def _digest(values: dict[str, Any]) -> str:
    own = {key: value for key, value in values.items() if key not in _NOT_THE_JOB}
    return hashlib.sha256(json.dumps(own, sort_keys=True, default=str).encode()).hexdigest()


def _one_by_one(sweep: Sweep, left: Sequence[Job]) -> int:
    """Run the jobs in this process, until a signal ends one; the status then is its."""
    settings = [settings_of(job.overrides) for job in sweep.folder.jobs]
    keys = differing(settings)
    for turn, job in enumerate(left, 1):
        own = settings_of(job.overrides)
        title = " ".join(f"{key}={own[key]}" for key in keys if key in own)
        print(f"\n[{turn}/{len(left)}] {sweep.folder.folder(job)}  {title}".rstrip(), flush=True)
        if (status := sweep.perform(job)) >= SIGNALLED:
            print(
                f"dtsflow: {counted(len(left) - turn + 1, 'job')} of {sweep.folder.path}/ left; "
                "the same command goes on with the sweep",
                file=sys.stderr,
            )
            return status
    return 0


def _failures(folder: SweepFolder, jobs: Sequence[Job]) -> int:
    """Tell which jobs failed, and with what."""
    failed = [job for job in jobs if not folder.is_finished(job)]
    if not failed:
        return 0
    print(
        f"dtsflow: {len(failed)} of {counted(len(jobs), 'job')} failed; the same command tries "
        "again",
        file=sys.stderr,
    )
    for job in failed:
        what = folder.failure(job) or "it did not come to its end"
        print(f"  {folder.folder(job)}: {what}", file=sys.stderr)
    return FAILED


def _told(report: dict[str, Any], run: Run) -> str:
    return (
        f"{report['images']:,} images, {report['images_per_s']:,.0f} images/s with "
        f"{counted(run.plan.workers, 'worker')}"
    )
