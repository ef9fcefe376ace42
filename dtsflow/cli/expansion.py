"""From the overrides of a sweep to those of each job, by Hydra's own grammar."""

import itertools
from collections.abc import Sequence
from pathlib import Path

from hydra import compose as hydra_compose
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from dtsflow.compose import (
    CONFIG_NAME,
    EXPERIMENT,
    IN_LIST,
    REFUSALS,
    config_folders,
    explain,
    quoted,
    search,
)
from dtsflow.errors import ConfigError

_PARAMS = "hydra.sweeper.params"  # where a config says what is swept, as in any Hydra app


def expand(overrides: Sequence[str], config_dir: Path | None = None) -> list[list[str]]:
    """Every combination of the values that `overrides` list; the last varies fastest.

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
    """What the chosen experiment sweeps, as overrides; nothing if it is several."""
    chosen = listed.get(f"+{EXPERIMENT}", [])
    if len(chosen) != 1:
        return []
    params = OmegaConf.select(hydra_compose(CONFIG_NAME, chosen, return_hydra_config=True), _PARAMS)
    return [f"{key}={value}" for key, value in (params or {}).items()]
