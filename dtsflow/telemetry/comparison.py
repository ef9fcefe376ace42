"""Runs side by side: what they were configured to be, and what came of it."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from dtsflow.errors import ConfigError
from dtsflow.telemetry.folder import REPORT
from dtsflow.telemetry.sweep_folder import SWEEP, read_failure, read_jobs

CONFIG = "config.yaml"
SPEED, WAIT, MEMORY, BAD = "images/s", "wait", "memory", "bad samples"

_OF_THE_FOLDER = ("name", "resume")  # keys that say nothing of what a run does
_LESS_IS_BETTER = (WAIT, MEMORY, BAD, "loss")

Settings = dict[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """One run.

    Attributes:
        folder: Its folder.
        settings: What it was configured to be, by key.
        figures: What came of it, by name; nothing if it has not finished.
        state: Empty if it has; else what became of it.
    """

    folder: Path
    settings: Settings
    figures: dict[str, float]
    state: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs, the best one first, those without the figure in question last.

    Attributes:
        keys: The keys whose values are not the same in all runs.
        figures: Names of the figures that any run has.
        by: The figure that they are ordered by.
        rows: The runs.
    """

    keys: list[str]
    figures: list[str]
    by: str
    rows: list[Row]


def compare(paths: Sequence[Path], by: str = SPEED) -> Comparison:
    """Compare the runs and the jobs of the sweeps in these folders.

    Jobs of sweeps differ in their overrides; beside other runs, in all of the
    configuration.

    Raises:
        ConfigError: A folder is neither, or no run has the figure `by`.
    """
    only_sweeps = all((path / SWEEP).is_file() for path in paths)
    rows = [row for path in paths for row in _rows(path, of_overrides=only_sweeps)]
    figures = list(dict.fromkeys(name for row in rows for name in row.figures))
    if figures and by not in figures:
        raise ConfigError(f"--by {by!r}: no run has that. There is: {', '.join(figures)}.")
    rows.sort(key=lambda row: _rank(row, by))
    return Comparison(differing([row.settings for row in rows]), figures, by, rows)


def settings_of(overrides: Sequence[str]) -> Settings:
    """What overrides set, by key; a group's option is a value, too."""
    pairs = (override.partition("=") for override in overrides)
    return {key.lstrip("+"): value for key, _, value in pairs}


def differing(settings: Sequence[Settings]) -> list[str]:
    """The keys that not all have, or not with the same value."""
    keys = dict.fromkeys(key for of_run in settings for key in of_run)
    return [key for key in keys if len({of_run.get(key) for of_run in settings}) > 1]


def less_is_better(figure: str) -> bool:
    """Whether a smaller one of these figures is the better one."""
    return figure.endswith(_LESS_IS_BETTER)


def _rank(row: Row, by: str) -> tuple[bool, float]:
    if by not in row.figures:
        return True, 0.0
    figure = row.figures[by]
    return False, figure if less_is_better(by) else -figure


def _rows(path: Path, *, of_overrides: bool) -> list[Row]:
    if not (path / SWEEP).is_file():
        if not (path / CONFIG).is_file():
            raise ConfigError(
                f"{path} is the folder of no run and of no sweep: there is neither {CONFIG} nor "
                f"{SWEEP} in it."
            )
        return [_row(path, _configured(path))]
    rows = []
    for job in read_jobs(path):
        folder = path / str(job.number)
        rows.append(
            _row(folder, settings_of(job.overrides) if of_overrides else _configured(folder))
        )
    return rows


def _row(folder: Path, settings: Settings) -> Row:
    figures = _figures(folder / REPORT)
    if figures:
        return Row(folder, settings, figures, "")
    failure = read_failure(folder)
    return Row(folder, settings, {}, f"failed: {failure}" if failure else "not finished")


def _configured(folder: Path) -> Settings:
    """Every key of a run's configuration with its value, as text."""
    if not (folder / CONFIG).is_file():
        return {}  # a job that was never begun
    try:
        tree = OmegaConf.to_container(OmegaConf.load(folder / CONFIG))
    except (OSError, ValueError, YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"{folder / CONFIG} cannot be read: {error}.") from error
    flat: Settings = {}
    _flatten(tree, "", flat)
    return {key: value for key, value in flat.items() if key not in _OF_THE_FOLDER}


def _flatten(node: Any, place: str, flat: Settings) -> None:
    if isinstance(node, Mapping) and node:
        for key, value in node.items():
            _flatten(value, f"{place}.{key}" if place else str(key), flat)
    elif isinstance(node, list) and node:
        for number, value in enumerate(node):
            _flatten(value, f"{place}[{number}]", flat)
    else:
        flat[place] = "null" if node is None else str(node)


def _figures(path: Path) -> dict[str, float]:
    """The figures of a report; none where there is no report.

    Raises:
        ConfigError: It is no report of a run.
    """
    if not path.is_file():
        return {}
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        speed = report["images_per_s"]
        took = report["images"] / speed if speed else 0.0
        found = {
            SPEED: speed,
            WAIT: report["stages"]["wait"] / took if took else 0.0,
            MEMORY: report["peak_rss_bytes"] - report["rss_before_bytes"],
            **({BAD: report["bad_samples"]} if report["bad_samples"] else {}),
            **_trained(report.get("train")),
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} is no report of a run ({error!r}).") from error
    return {name: float(value) for name, value in found.items() if math.isfinite(value)}


def _trained(train: Mapping[str, Any] | None) -> dict[str, float]:
    """The mean loss of the last epoch, and what each phase was last evaluated to."""
    if not train:
        return {}
    losses = train["losses"]
    found = {"train loss": losses[-1]["loss"]} if losses else {}
    for phase, last in train["last"].items():
        means = {name: mean for name, mean in last.items() if name not in ("phase", "epoch")}
        found |= {f"{phase} {name}": mean for name, mean in means.items()}
    return found
