"""The folder of a sweep: its jobs, each in a numbered run folder."""

import json
import os
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from dtsflow.errors import ConfigError, DtsflowError
from dtsflow.pipeline.checkpoint import STATE
from dtsflow.pipeline.run_folder import REPORT, RUNS

SWEEP = "sweep.json"
OVERRIDES = "overrides.yaml"
ERROR = "error.json"


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a sweep.

    Attributes:
        number: Its folder's name.
        overrides: What it is configured by.
        config: Digest of what these composed to, by which it is known again.
    """

    number: int
    overrides: tuple[str, ...]
    config: str


@dataclass(frozen=True, slots=True)
class SweepFolder:
    """`runs/NAME` of a sweep, with the jobs of every command that was given for it.

    Attributes:
        name: The sweep's name.
        path: The folder.
        jobs: All jobs so far, by number.
    """

    name: str
    path: Path
    jobs: tuple[Job, ...]

    @classmethod
    def open(cls, name: str) -> "SweepFolder":
        """Read what the folder says; nothing is made.

        Raises:
            ConfigError: `name` leads out of the folder `runs`, or a run has it.
        """
        parts = Path(name).parts
        if Path(name).is_absolute() or ".." in parts or not parts:
            raise ConfigError(f"name: {name!r} must name a folder inside {RUNS}/.")
        path = RUNS.joinpath(*parts)
        if (path / REPORT).exists() or (path / STATE).exists():
            raise ConfigError(f"name: {path} is the folder of a run. Give the sweep another name.")
        return cls("/".join(parts), path, read_jobs(path))

    def enter(self, wanted: Sequence[tuple[Sequence[str], str]]) -> tuple["SweepFolder", list[Job]]:
        """Enter the folder with the wanted jobs, given as overrides and a digest.

        A job that is known keeps its number, one that is not gets the next. So a sweep
        can be given again, and with more values. Of jobs that are alike each is one.
        """
        known: dict[str, list[Job]] = {}
        for job in self.jobs:
            known.setdefault(job.config, []).append(job)
        jobs, entered = list(self.jobs), []
        for overrides, config in wanted:
            if alike := known.get(config):
                entered.append(alike.pop(0))
            else:
                jobs.append(Job(len(jobs), tuple(overrides), config))
                entered.append(jobs[-1])
        return SweepFolder(self.name, self.path, tuple(jobs)), entered

    def write(self, command: str) -> None:
        """Write the list of jobs, whole or not at all.

        Raises:
            ConfigError: The folder cannot be made.
        """
        listed = {"command": command, "jobs": [asdict(job) for job in self.jobs]}
        draft = self.path / f".{SWEEP}.{os.getpid()}"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")
            draft.replace(self.path / SWEEP)
        except OSError as error:
            told = f"name: {self.path} cannot be made the folder of a sweep: {error}."
            raise ConfigError(told) from error

    def folder(self, job: Job) -> Path:
        """Return the run folder of a job."""
        return self.path / str(job.number)

    def is_finished(self, job: Job) -> bool:
        """Tell whether the job came to its end."""
        return (self.folder(job) / REPORT).exists()

    def begin(self, job: Job) -> None:
        """Make the job's folder and say there what it is; forget an earlier failure."""
        folder = self.folder(job)
        folder.mkdir(parents=True, exist_ok=True)
        overrides = OmegaConf.to_yaml(OmegaConf.create(list(job.overrides)))
        (folder / OVERRIDES).write_text(overrides, encoding="utf-8")
        (folder / ERROR).unlink(missing_ok=True)

    def fail(self, job: Job, error: Exception) -> None:
        """Keep what the job failed with; for an error that is not ours, also where."""
        told = {"error": type(error).__name__, "message": str(error)}
        if not isinstance(error, DtsflowError):
            told["traceback"] = "".join(traceback.format_exception(error))
        (self.folder(job) / ERROR).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")

    def failure(self, job: Job) -> str:
        """Return what the job failed with, as one line; empty if it did not."""
        return read_failure(self.folder(job))


def read_failure(folder: Path) -> str:
    """Return what the run in `folder` failed with, as one line.

    Empty if nothing is kept.
    """
    try:
        told = json.loads((folder / ERROR).read_text(encoding="utf-8"))
        return " ".join(f"{told['error']}: {told['message']}".split())
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def read_jobs(folder: Path) -> tuple[Job, ...]:
    """Return the jobs that the sweep in `folder` lists.

    None where there is no sweep.

    Raises:
        ConfigError: Its list cannot be read.
    """
    path = folder / SWEEP
    try:
        if not path.is_file():
            return ()
        listed: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["jobs"]
        jobs = [Job(job["number"], tuple(job["overrides"]), job["config"]) for job in listed]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} is no list of a sweep's jobs ({error}). Move the folder away, or give the "
            "sweep another name."
        ) from error
    return tuple(jobs)
