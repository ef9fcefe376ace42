"""What Hydra composes, composed once for all tests that ask for the same choices.

Hydra takes a tenth of a second for what a run of a test needs a hundredth for, and the
suite opens thousands of runs. Choices of groups alone decide which files are read, so
what they compose is kept, and the values of single keys are laid over a copy of it, by
the function with which Hydra itself does so. Only the shipped folder and those of
plugins are taken for unchanging; all else, and whatever is refused, goes to Hydra.
"""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path

from hydra import compose as hydra_compose
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

Compose = Callable[..., DictConfig]


def shared(unchanging: Sequence[Path]) -> Compose:
    """Return a `hydra.compose` that composes each list of choices once."""
    kept: dict[tuple[str, ...], DictConfig] = {}
    parser = OverridesParser.create()

    def is_choice(override: Override) -> bool:
        key = override.key_or_group
        return "/" in key or any((folder / key).is_dir() for folder in unchanging)

    def compose(name: str, words: list[str], *, return_hydra_config: bool) -> DictConfig:
        assert return_hydra_config
        path = GlobalHydra.instance().config_loader().get_search_path().get_path()
        own = [one.path for one in path if one.provider in {"main", "dtsflow"}]
        folders = [Path(folder.removeprefix("file://")) for folder in own]
        if not set(folders) <= set(unchanging):
            return hydra_compose(name, words, return_hydra_config=True)
        try:
            overrides = parser.parse_overrides(words)
            choices = [one for one in overrides if is_choice(one)]
            key = (name, *map(str, folders), *(str(one.input_line) for one in choices))
            if key not in kept:
                whole = hydra_compose(name, list(key[1 + len(folders) :]), return_hydra_config=True)
                chosen = OmegaConf.to_container(whole.hydra.runtime.choices)
                OmegaConf.set_struct(whole, value=False)
                whole.hydra = {"runtime": {"choices": chosen}}
                OmegaConf.set_struct(whole, value=True)
                kept[key] = whole
            made = copy.deepcopy(kept[key])
            ConfigLoaderImpl._apply_overrides_to_config(
                [one for one in overrides if not is_choice(one)], made
            )
        except (HydraException, TypeError, ValueError):
            return hydra_compose(name, words, return_hydra_config=True)
        return made

    return compose
