"""The words of a command line that configure a run."""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

from dtsflow.compose import Composed, compose
from dtsflow.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Configured:
    """What a command line asks for.

    Attributes:
        composed: The configuration, with a name in it.
        arguments: The words themselves.
    """

    composed: Composed
    arguments: list[str]


def configure(command: str, about: str, words: list[str]) -> Configured:
    """Compose what `words` ask for; without a name it takes the experiment's.

    Raises:
        ConfigError: A word is no override, or the configuration cannot be composed.
    """
    parser = argparse.ArgumentParser(
        prog=f"dtsflow {command}",
        description=about,
        epilog="`dtsflow` alone lists experiments, groups and options.",
    )
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="e.g. batch_size=64")
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="configs searched first")
    known, unknown = parser.parse_known_intermixed_args(words)
    for word in (*unknown, *known.overrides):
        if "=" not in word and not word.startswith("~"):
            raise ConfigError(f"{word!r} is neither a command nor KEY=VALUE. See `dtsflow --help`.")
    composed = compose([*known.overrides, *unknown], config_dir=known.config_dir)
    name = composed.values.get("name") or composed.experiment or "run"
    return Configured(replace(composed, values={**composed.values, "name": name}), words)
