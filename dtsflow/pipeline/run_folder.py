"""The run folder: what is kept of a run."""

import importlib
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dtsflow.errors import ConfigError
from dtsflow.pipeline.checkpoint import STATE, rank_state, states_beside
from dtsflow.ranks.group import Rank
from dtsflow.report.bad_samples import BAD_SAMPLES, bad_samples_file
from dtsflow.volume.format.io import sync_folder

RUNS = Path("runs")
SCANS = ".scans"  # of volumes without an index, so that they are scanned once
REPORT = "report.json"
PART = "part.{}.json"

try:
    fcntl: Any = importlib.import_module("fcntl")
except ImportError:  # not on Windows, where two runs of one name are not kept apart
    fcntl = None

_LOGGER = logging.getLogger("dtsflow")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """`runs/NAME`, with a log file of this rank while the run lasts.

    Attributes:
        path: The folder.
        rank: Whose part in it this is.
        command: The command line that started the run, empty in the library.
        log_file: The handler that writes the log.
    """

    path: Path
    rank: int
    command: str
    log_file: logging.FileHandler

    @classmethod
    def make(cls, name: str, rank: Rank, command: str = "") -> "RunFolder":
        """Make the folder of run `name`; an earlier finished run of that name is kept.

        What an unfinished one left stays as it is; `begin_anew` clears it away.

        Raises:
            ConfigError: `name` leads out of the folder `runs`, or the folder belongs to
                an open run.
        """
        path = run_path(name)
        try:
            if (path / REPORT).exists() and not _is_locked(path / _log_name(rank)):
                path.rename(_free_name(path))
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"name: {path} cannot be made a run folder: {error}.") from error
        # The current folder may change while the run lasts.
        return cls.enter(path.absolute(), rank, command)

    @classmethod
    def enter(
        cls, path: str | Path, rank: Rank, command: str = "", *, anew: bool = False
    ) -> "RunFolder":
        """Keep a log of this rank in the run folder `path`, which is there.

        `anew` forgets what this rank left there before.

        Raises:
            ConfigError: The folder cannot be written to, or belongs to an open run.
        """
        path = Path(path)
        try:
            log_file = logging.FileHandler(path / _log_name(rank), encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"name: {path} is no folder for rank {rank.index}: {error}."
            ) from error
        if not _lock(log_file.stream):
            log_file.close()
            raise ConfigError(f"name: {path} belongs to a run that is still open. Choose another.")
        line = f"%(asctime)s rank {rank.index} %(levelname)s %(name)s: %(message)s"
        log_file.setFormatter(logging.Formatter(line))
        _LOGGER.addHandler(log_file)
        _LOGGER.setLevel(min(_LOGGER.level or logging.INFO, logging.INFO))
        folder = cls(path, rank.index, command, log_file)
        if anew:
            folder.forget_log()
        return folder

    def forget_log(self) -> None:
        """Begin the log anew."""
        os.truncate(self.log_file.baseFilename, 0)

    def begin_anew(self) -> None:
        """Forget the unfinished run that was here: its log, state, parts and lists."""
        self.forget_log()
        parts, lists = self.path.glob(PART.format("*")), self.path.glob(bad_samples_file("*"))
        for left in (self.path / BAD_SAMPLES, *parts, *lists):
            left.unlink(missing_ok=True)
        self.forget_states()

    def forget_states(self) -> None:
        """Remove the states of all ranks."""
        for left in states_beside(self.path / STATE):
            left.unlink(missing_ok=True)

    @property
    def state(self) -> Path:
        """Return the file that says where this rank goes on.

        Only an unfinished run has it.
        """
        return self.path / (rank_state(self.rank) if self.rank else STATE)

    def write(self, name: str, text: str, *, durable: bool = False) -> None:
        """Write one file of the folder, whole or not at all.

        It outlives the end of this process; if `durable`, that of the machine, too.
        """
        target = self.path / name
        draft = target.with_name(f".{name}.{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        if durable:
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
        draft.replace(target)
        if durable:
            sync_folder(self.path)

    def write_report(self, report: dict[str, Any]) -> None:
        """Write the report, which makes the run a finished one."""
        self.write(REPORT, json.dumps(report, indent=2) + "\n")
        self.forget_states()

    def write_part(self, report: dict[str, Any]) -> None:
        """Write the report of a part of the run, which goes on later."""
        number = 1
        while (self.path / PART.format(number)).exists():
            number += 1
        self.write(PART.format(number), json.dumps(report, indent=2) + "\n")

    def close(self) -> None:
        """Close the log."""
        _LOGGER.removeHandler(self.log_file)
        self.log_file.close()


def run_path(name: str) -> Path:
    """Return the folder of run `name`, from the current folder on.

    Raises:
        ConfigError: `name` leads out of the folder `runs`.
    """
    parts = Path(name).parts
    if Path(name).is_absolute() or ".." in parts or not parts:
        raise ConfigError(f"name: {name!r} must name a folder inside {RUNS}/.")
    return RUNS.joinpath(*parts)


def _log_name(rank: Rank) -> str:
    return f"rank{rank.index}.log"


def _lock(file: IO[str] | None) -> bool:
    """Hold `file` for this run, until it is closed or the process ends."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_locked(path: Path) -> bool:
    if not path.exists():
        return False
    with path.open("a", encoding="utf-8") as file:
        return not _lock(file)


def _free_name(path: Path) -> Path:
    number = 1
    while (kept := path.with_name(f"{path.name}.{number}")).exists():
        number += 1
    return kept
