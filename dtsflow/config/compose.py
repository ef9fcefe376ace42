"""Composing a configuration with Hydra: from overrides to plain values.

A folder given by the caller, `./conf` and the configs of installed plugins are searched
before the shipped ones. Nothing after this module sees an OmegaConf object.
"""

import importlib.util
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir, version
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from dtsflow.config.configurable import nearest, plugin_packages
from dtsflow.errors import ConfigError

CONFIG_NAME = "dtsflow"  # not config: that is what a Hydra app around us calls its own
EXPERIMENT = "experiment"
HYDRA_VERSION = "1.3"  # the defaults-list and override behaviour that conf/ is written for

IN_LIST = re.compile(r"[\w.]+(\.\d+|\[\d+\])[\w.\[\]]*=")  # po.operations.0.size=, or [0]
# What Hydra, OmegaConf and the YAML reader raise for what a person wrote.
REFUSALS = (
    HydraException,
    OmegaConfBaseException,
    YAMLError,
    OSError,
    TypeError,
    ValueError,
)

_compose_lock = threading.Lock()  # Hydra keeps the current search path in one global


@dataclass(frozen=True, slots=True)
class Composed:
    """A composed configuration, as plain values.

    Attributes:
        values: The whole tree; interpolations are resolved.
        experiment: Name of the chosen experiment, None without one.
    """

    values: dict[str, Any]
    experiment: str | None


def shipped_conf() -> Path:
    """Return the folder of our own configs: in a wheel, or in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def config_folders(extra: Path | None = None) -> list[Path]:
    """Return the folders that are searched, first match first.

    Raises:
        ConfigError: `extra` is not a folder.
    """
    if extra is not None and not extra.is_dir():
        raise ConfigError(f"--config-dir: {extra} is not a folder.")
    local = Path.cwd() / "conf"
    found = [extra.absolute()] if extra is not None else []
    found += [local] if local.is_dir() else []
    found += _plugin_folders()
    return list(dict.fromkeys([*found, shipped_conf()]))


def compose(
    overrides: Iterable[str] = (),
    *,
    values: Mapping[str, Any] | None = None,
    config_dir: Path | None = None,
) -> Composed:
    """Compose the configuration for `overrides` as on the command line.

    `values` is a tree that is laid over the result; a name in place of a group's tree
    chooses that option, as in `{"experiment": "cifar10", "volume": {"path": "x.dts"}}`.

    Raises:
        ConfigError: An override, option or key does not exist or cannot be read.
    """
    overrides = [quoted(override) for override in overrides]
    values = dict(values or {})
    folders = config_folders(config_dir)
    chosen = {key: values.pop(key) for key in [*values] if _is_choice(key, values[key], folders)}
    overrides = [*overrides, *(f"{_plus(group)}{group}={name}" for group, name in chosen.items())]
    in_lists = [override for override in overrides if IN_LIST.match(override)]
    overrides = [override for override in overrides if override not in in_lists]
    try:
        with search(folders):
            composed = _composed(overrides, values)
            return replace(composed, values=_with_entries(composed.values, in_lists))
    except REFUSALS as error:
        raise ConfigError(explain(error, overrides, folders)) from error


def quoted(override: str) -> str:
    """Return `override`, its value in quotes if Hydra's grammar cannot read it as is.

    So paths with spaces, accents, `~` or `=` need no quotes within quotes.

    Raises:
        ConfigError: It has no key, or sets something of Hydra's own, unused here.
    """
    key, equals, value = override.partition("=")
    if not key:
        raise ConfigError(f"{override!r} names no key; write KEY=VALUE.")
    if key.lstrip("+~").startswith("hydra"):
        raise ConfigError(f"{key}: Hydra's own settings have no effect here; leave it out.")
    if not equals or IN_LIST.match(override):
        return override
    try:
        OverridesParser.create().parse_override(override)
    except HydraException:
        if value[:1] not in "[{'\"":
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"{key}='{escaped}'"
    return override


def _with_entries(values: dict[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Return `values` with single entries of lists changed, as Hydra cannot do.

    Raises:
        ConfigError: There is no such list or entry.
    """
    tree = OmegaConf.create(values)
    for override in overrides:
        key, _, text = override.partition("=")
        parent, _, last = key.replace("[", ".").replace("]", "").rpartition(".")
        node = OmegaConf.select(tree, parent)
        is_entry = isinstance(node, ListConfig) and last.isdecimal() and int(last) < len(node)
        if not is_entry and not isinstance(node, DictConfig):
            raise ConfigError(f"{key}: there is no such entry to change.")
        OmegaConf.update(node, last, OmegaConf.from_dotlist([f"value={text}"]).value)
    plain = OmegaConf.to_container(tree, resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def _is_choice(key: str, value: object, folders: Sequence[Path]) -> bool:
    return isinstance(value, str) and any((folder / key).is_dir() for folder in folders)


def _plus(group: str) -> str:
    return "+" if group == EXPERIMENT else ""  # the one group that has no default option


def _composed(overrides: Sequence[str], laid_over: Mapping[str, Any]) -> Composed:
    config = hydra_compose(CONFIG_NAME, list(overrides), return_hydra_config=True)
    experiment = OmegaConf.select(config, f"hydra.runtime.choices.{EXPERIMENT}")
    own = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    OmegaConf.set_struct(own, value=False)  # build() refuses unknown keys, by a better message
    values = OmegaConf.to_container(OmegaConf.merge(own, dict(laid_over)), resolve=True)
    assert isinstance(values, dict)
    return Composed({str(key): value for key, value in values.items()}, experiment)


class _DtsflowSearchPath(SearchPathPlugin):
    """A plugin of Hydra that adds our folders after the first one, for `compose`."""

    folders: Sequence[Path] = ()

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in type(self).folders:
            search_path.append("dtsflow", f"file://{folder}")


@contextmanager
def search(folders: Sequence[Path]) -> Iterator[None]:
    """Point Hydra at `folders`, and leave a Hydra app around us as it was."""
    with _compose_lock:
        state, base = GlobalHydra.instance(), version.getbase()
        outer = state.hydra
        state.clear()
        Plugins.instance().register(_DtsflowSearchPath)
        _DtsflowSearchPath.folders = folders[1:]
        try:
            with initialize_config_dir(str(folders[0]), version_base=HYDRA_VERSION):
                yield
        finally:
            _DtsflowSearchPath.folders = ()
            GlobalHydra.instance().hydra = outer
            if outer is not None:
                version.setbase(str(base))


def _plugin_folders() -> list[Path]:
    """Return the `conf` folders of installed plugins."""
    folders = []
    for package in sorted(plugin_packages()):
        spec = importlib.util.find_spec(package)
        places = spec.submodule_search_locations if spec else None
        folders += [Path(place) / "conf" for place in places or ()]
    return [folder for folder in folders if folder.is_dir()]


def explain(error: Exception, overrides: Sequence[str], folders: Sequence[Path]) -> str:
    """Explain in one line what Hydra refused, with the nearest name that exists."""
    text = str(error).strip()
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = str(error.missing_cfg_file).partition("/")
        group, name = (group, name) if name else ("", group)
        options = list(error.options or ())
        return f"{group or 'config'}={name}: there is no such option.{nearest(name, options)}"
    unknown = re.match(r"Could not override '([^']+)'", text)
    if isinstance(error, ConfigCompositionException) and unknown:
        return _explain_key(unknown.group(1), overrides, folders)
    if text.startswith("Config group override must be"):
        return "a group's option is chosen by its name, as in reader=resident, and by nothing else."
    return " ".join(text.split())


def _explain_key(key: str, overrides: Sequence[str], folders: Sequence[Path]) -> str:
    parent, _, last = key.rpartition(".")
    # Choices of groups and experiments compose; it is a value's key that did not.
    choices = [
        o for o in overrides if "." not in o.partition("=")[0] and o.partition("=")[0] != key
    ]
    try:
        with search(folders):
            known = OmegaConf.create(_composed(choices, {}).values)
    except REFUSALS:
        return f"{key}: there is no such key."
    node = OmegaConf.select(known, parent) if parent else known
    names = [str(name) for name in node] if isinstance(node, DictConfig) else []
    names = [name for name in names if not name.startswith("_")]
    if key == EXPERIMENT:
        return "experiment: add it with a plus sign, as +experiment=NAME."
    return f"{key}: there is no such key.{nearest(last, names)}"
