"""The words of a command line that configure a run."""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

from dtsflow.config.compose import Composed, compose
from dtsflow.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Configured:
    """The settings that a command line asks for.

    Attributes:
        composed: The configuration, with a name in it.
        arguments: The words themselves.
    """

    composed: Composed
    arguments: list[str]


@dataclass(frozen=True, slots=True)
class Words:
    """A command line, read: overrides, a folder of configs, whether it is a sweep."""

    overrides: list[str]
    config_dir: Path | None
    sweeps: bool


def read_words(command: str, about: str, words: list[str]) -> Words:
    """Tell overrides from options.

    Raises:
        ConfigError: A word is neither.
    """
    parser = argparse.ArgumentParser(
        prog=f"dtsflow {command}",
        description=about,
        epilog="`dtsflow` alone lists experiments, groups and options.",
    )
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="e.g. batch_size=64")
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="configs searched first")
    if command == "run":
        told = "a run for each combination of values, as workers=1,2"
        parser.add_argument("-m", "--multirun", action="store_true", help=told)
    known, unknown = parser.parse_known_intermixed_args(words)
    for word in (*unknown, *known.overrides):
        if "=" not in word and not word.startswith("~"):
            raise ConfigError(f"{word!r} is neither a command nor KEY=VALUE. See `dtsflow --help`.")
    sweeps = getattr(known, "multirun", False)
    return Words([*known.overrides, *unknown], known.config_dir, sweeps)


def configure(command: str, about: str, words: list[str]) -> Configured:
    """Compose what `words` ask for; without a name it takes the experiment's.

    Raises:
        ConfigError: A word is not an override, or the configuration cannot be composed.
    """
    read = read_words(command, about, words)
    composed = compose(read.overrides, config_dir=read.config_dir)
    name = composed.values.get("name") or composed.experiment or "run"
    return Configured(replace(composed, values={**composed.values, "name": name}), words)
