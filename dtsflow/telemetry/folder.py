"""The run folder: what is kept of a run."""

import importlib
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dtsflow.errors import ConfigError
from dtsflow.ranks.rank import Rank

RUNS = Path("runs")
REPORT = "report.json"

try:
    fcntl: Any = importlib.import_module("fcntl")
except ImportError:  # not on Windows, where two runs of one name are not told apart
    fcntl = None

_LOGGER = logging.getLogger("dtsflow")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """`runs/NAME`, with a log file of this rank while the run lasts.

    Attributes:
        path: The folder.
        command: The command line that started the run, empty in the library.
        log_file: The handler that writes the log.
    """

    path: Path
    command: str
    log_file: logging.Handler

    @classmethod
    def make(cls, name: str, rank: Rank, command: str = "") -> "RunFolder":
        """Make the folder of run `name`; an earlier finished run of that name is kept.

        Raises:
            ConfigError: `name` leads out of the folder `runs`.
        """
        parts = Path(name).parts
        if Path(name).is_absolute() or ".." in parts or not parts:
            raise ConfigError(f"name: {name!r} must name a folder inside {RUNS}/.")
        path = RUNS.joinpath(*parts)
        log_name = f"rank{rank.index}.log"
        try:
            if (path / REPORT).exists() and not _is_locked(path / log_name):
                path.rename(_free_name(path))
            path.mkdir(parents=True, exist_ok=True)
            # The current folder may change while the run lasts.
            path = path.absolute()
            log_file = logging.FileHandler(path / log_name, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"name: {path} cannot be made a run folder: {error}.") from error
        if not _lock(log_file.stream):
            log_file.close()
            raise ConfigError(f"name: {path} belongs to a run that is still open. Choose another.")
        os.truncate(path / log_name, 0)
        line = f"%(asctime)s rank {rank.index} %(levelname)s %(name)s: %(message)s"
        log_file.setFormatter(logging.Formatter(line))
        _LOGGER.addHandler(log_file)
        _LOGGER.setLevel(min(_LOGGER.level or logging.INFO, logging.INFO))
        return cls(path, command, log_file)

    def write(self, name: str, text: str) -> None:
        """Write one file of the folder, whole or not at all."""
        target = self.path / name
        draft = target.with_name(f".{name}.{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        draft.replace(target)

    def write_report(self, report: dict[str, Any]) -> None:
        """Write the report, which makes the run a finished one."""
        self.write(REPORT, json.dumps(report, indent=2) + "\n")

    def close(self) -> None:
        """Close the log."""
        _LOGGER.removeHandler(self.log_file)
        self.log_file.close()


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
