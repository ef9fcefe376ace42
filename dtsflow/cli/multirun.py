"""`dtsflow --multirun`: a run for each combination of the values that keys list.

The overrides of a sweep become those of each job by Hydra's own grammar. Jobs run here,
or through a launcher plugin of Hydra: joblib, submitit and others.
"""

import contextlib
import hashlib
import itertools
import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hydra import compose as hydra_compose
from hydra._internal.callbacks import Callbacks
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.errors import MissingConfigException
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf

from dtsflow.cli.overrides import read_words
from dtsflow.cli.report import table
from dtsflow.cli.run import ABOUT, perform
from dtsflow.cli.terminal import FAILED, SIGNALLED, counted
from dtsflow.config.compose import (
    CONFIG_NAME,
    EXPERIMENT,
    IN_LIST,
    REFUSALS,
    Composed,
    compose,
    config_folders,
    explain,
    quoted,
    search,
)
from dtsflow.errors import ConfigError, MissingPartError, RanksError
from dtsflow.pipeline.build import build
from dtsflow.pipeline.run import Run
from dtsflow.ranks.launcher import launched_size
from dtsflow.report.compare import differing, settings_of
from dtsflow.report.sweep import Job, SweepFolder

_PARAMS = "hydra.sweeper.params"  # where a config says what is swept, as in any Hydra app


def expand(overrides: Sequence[str], config_dir: Path | None = None) -> list[list[str]]:
    """Return every combination of the values that `overrides` list.

    The last varies fastest.

    Values are listed as Hydra has it: `1,2`, `range(1,5)`, `choice(a,b)`, and
    `glob(*)` for the options of a group. What the experiment lists under
    `hydra.sweeper.params` is swept, too, but for keys that are among `overrides`.

    Raises:
        ConfigError: An override cannot be read, or lists no values.
    """
    folders = config_folders(config_dir)
    overrides = [quoted(override) for override in overrides]
    try:
        with search(folders):
            loader = GlobalHydra.instance().config_loader()
            listed = _listed(overrides, loader)
            named = {key.lstrip("+~") for key in listed}
            params = [param for param in _params(listed) if param.partition("=")[0] not in named]
            listed |= _listed([quoted(param) for param in params], loader)
    except REFUSALS as error:
        raise ConfigError(explain(error, overrides, folders)) from error
    return [list(job) for job in itertools.product(*listed.values())]


def _listed(overrides: Sequence[str], loader: ConfigLoader) -> dict[str, list[str]]:
    """By key, an override for each of its values; a later one of a key counts."""
    return {override.partition("=")[0]: _values(override, loader) for override in overrides}


def _values(word: str, loader: ConfigLoader) -> list[str]:
    key, equals, text = word.partition("=")
    # Hydra's grammar knows no entries of lists; their values are as all others.
    readable = f"entry={text}" if IN_LIST.match(word) else word
    (override,) = OverridesParser.create(config_loader=loader).parse_overrides([readable])
    if not equals or not override.is_sweep_override():
        return [word]
    if not override.is_discrete_sweep():
        raise ConfigError(f"{key}: {text!r} lists no values. List them, as {key}=1,2,3.")
    found = [f"{key}={value}" for value in override.sweep_string_iterator()]
    if not found:
        raise ConfigError(f"{key}: {text!r} is no value at all, so there would be no job.")
    return found


def _params(listed: dict[str, list[str]]) -> list[str]:
    """Return what the chosen experiment sweeps, as overrides.

    Nothing if several experiments are chosen.
    """
    chosen = listed.get(f"+{EXPERIMENT}", [])
    if len(chosen) != 1:
        return []
    params = OmegaConf.select(hydra_compose(CONFIG_NAME, chosen, return_hydra_config=True), _PARAMS)
    return [f"{key}={value}" for key, value in (params or {}).items()]


OUTPUT = "output.txt"  # what a launched job would print, in its folder

# What Hydra needs to know of a job but leaves to us: no files and no logs of its own.
_QUIET = (
    "hydra.output_subdir=null",
    "hydra.job.name=dtsflow",
    "hydra.sweep.subdir=.",
    "hydra/job_logging=none",
    "hydra/hydra_logging=none",
)


class Performer(Protocol):
    """A callable that runs one job; it must be picklable."""

    @property
    def folder(self) -> SweepFolder:
        """Return where the sweep is kept."""

    def perform(self, job: Job) -> int:
        """Run the job; returns its exit status."""


def parted(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the overrides that choose and configure a launcher, and all others."""
    chosen = [word for word in overrides if word.startswith(("hydra/launcher=", "hydra.launcher."))]
    return chosen, [word for word in overrides if word not in chosen]


def launch(chosen: Sequence[str], sweep: Performer, jobs: Sequence[Job]) -> int:
    """Let the chosen launcher run all jobs; returns the largest exit status.

    What they print goes to a file in the folder of each.

    Raises:
        ConfigError: The launcher is not configured as it can be.
        MissingPartError: It is not installed.
    """
    words = [*chosen, *_QUIET, f"hydra.sweep.dir='{sweep.folder.path}'"]
    task = _Task(sweep, tuple(jobs))
    numbers = [[f"+job={job.number}"] for job in jobs]
    # Outside of the search, which a job in this process makes for itself.
    try:
        returns = _launcher(words, task).launch(numbers, initial_job_idx=0)
    except RuntimeError as error:  # as joblib and submitit say that a process was killed
        print(f"{chosen[0]}: {error}", file=sys.stderr)
        return FAILED
    return max(int(returned.return_value) for returned in returns)


def _launcher(words: Sequence[str], task: "_Task") -> Launcher:
    folders = config_folders()
    try:
        with search(folders):
            config = hydra_compose(CONFIG_NAME, list(words), return_hydra_config=True)
            loader = GlobalHydra.instance().config_loader()
            context = HydraContext(config_loader=loader, callbacks=Callbacks())
            return Plugins.instance().instantiate_launcher(context, task, config)
    except MissingConfigException as error:
        raise MissingPartError(
            f"{words[0]}: there is no such launcher here. For joblib, which runs jobs at the same "
            "time, install dtsflow[sweep]; for Slurm, hydra-submitit-launcher."
        ) from error
    except REFUSALS as error:
        raise ConfigError(explain(error, words, folders)) from error


@dataclass(frozen=True, slots=True)
class _Task:
    """The task that Hydra calls for each job, here or in another process."""

    sweep: Performer
    jobs: tuple[Job, ...]

    def __call__(self, config: DictConfig) -> int:
        (job,) = (job for job in self.jobs if job.number == config.job)
        self.sweep.folder.begin(job)
        output = self.sweep.folder.folder(job) / OUTPUT
        with output.open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
            status = self.sweep.perform(job)
        told = self.sweep.folder.failure(job) or "done"
        print(f"{self.sweep.folder.folder(job)}: {told}", file=sys.stderr, flush=True)
        return status


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
