"""`@configurable`: the only classes that a YAML file may name.

A configurable class is a frozen pydantic dataclass: wrong types, values out of range
and unknown keys are refused when it is made, and nothing can change it afterwards. The
decorator is also the allow-list: `_target_` may name a class that carries this mark, of
dtsflow or of an installed plugin that advertises the entry point group
`dtsflow.plugins`, and nothing else. So a configuration cannot call arbitrary code.
"""

import difflib
import importlib
from collections.abc import Iterable
from importlib.metadata import entry_points
from typing import Any, TypeVar, dataclass_transform

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as pydantic_dataclass

from dtsflow.errors import ConfigError

T = TypeVar("T")

_MARK = "__dtsflow_configurable__"
_CONFIG = ConfigDict(
    extra="forbid",
    arbitrary_types_allowed=True,
    coerce_numbers_to_str=True,  # a path or name such as 2024 is a number to YAML
)


@dataclass_transform(frozen_default=True, kw_only_default=False, field_specifiers=(Field,))
def configurable(cls: type[T]) -> type[T]:
    """Make `cls` a frozen, validated dataclass that configuration may name."""
    made: type[T] = pydantic_dataclass(frozen=True, config=_CONFIG)(cls)  # type: ignore[assignment]  # it returns cls, typed as pydantic's own protocol
    setattr(made, _MARK, made)
    return made


def is_configurable(value: object) -> bool:
    """Tell whether `value` is a class that was itself marked, not merely a subclass."""
    return isinstance(value, type) and value.__dict__.get(_MARK) is value


def plugin_packages() -> frozenset[str]:
    """Return the top-level packages that plugins advertise under `dtsflow.plugins`."""
    return frozenset(point.value.partition(":")[0].partition(".")[0] for point in _plugin_points())


def resolve_target(target: str, where: str) -> type[Any]:
    """Find the class that `_target_: target` names at the config path `where`.

    Raises:
        ConfigError: The name is outside dtsflow and its plugins, does not exist, or is
            not a `@configurable` class.
    """
    module_name, _, class_name = target.rpartition(".")
    package = module_name.partition(".")[0]
    if package != "dtsflow":  # to ask for plugins takes as long as all the rest
        allowed = {"dtsflow"} | plugin_packages()
        if package not in allowed:
            raise ConfigError(
                f"{where}._target_: {target!r} is not allowed. Only classes of "
                f"{', '.join(sorted(allowed))} may be named here; a plugin must advertise the "
                "entry point group dtsflow.plugins."
            )
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(
            f"{where}._target_: there is no module {module_name!r} ({error})."
        ) from error
    found = getattr(module, class_name, None)
    if not is_configurable(found):
        names = [name for name, value in vars(module).items() if is_configurable(value)]
        raise ConfigError(
            f"{where}._target_: {module_name} has no configurable class {class_name!r}."
            f"{nearest(class_name, names)}"
        )
    assert isinstance(found, type)
    return found


def nearest(word: str, valid: Iterable[str]) -> str:
    """Say which of the `valid` names was probably meant, or list them all."""
    names = sorted(set(valid))
    if not names:
        return ""
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    if close:
        return f" Did you mean {close[0]!r}?"
    return f" Valid names: {', '.join(names)}."


def _plugin_points() -> Iterable[Any]:
    return entry_points(group="dtsflow.plugins")
