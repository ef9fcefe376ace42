"""Jobs of a sweep through a launcher plugin of Hydra: joblib, submitit and others."""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hydra import compose as hydra_compose
from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.errors import MissingConfigException
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext
from omegaconf import DictConfig

from dtsflow.cli.status import FAILED
from dtsflow.compose import CONFIG_NAME, REFUSALS, config_folders, explain, search
from dtsflow.errors import ConfigError, MissingPartError
from dtsflow.telemetry.sweep_folder import Job, SweepFolder

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
    """What runs one job; it must be picklable."""

    @property
    def folder(self) -> SweepFolder:
        """Where the sweep is kept."""

    def perform(self, job: Job) -> int:
        """Run the job; returns its exit status."""


def parted(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """The overrides that choose and configure a launcher, and all others."""
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
    """What Hydra calls for each job, here or in another process."""

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
