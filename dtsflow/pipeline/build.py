"""From plain values to a pipeline: check, then instantiate.

A configuration writes phases as differences from the keys at its top, and schedules in
place of an attribute's value.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from pydantic import ValidationError

from dtsflow.config.configurable import nearest, resolve_target
from dtsflow.errors import ConfigError, DtsflowError
from dtsflow.pipeline.phase import Phase
from dtsflow.pipeline.pipeline import Pipeline
from dtsflow.po.schedule import Schedule, Scheduled
from dtsflow.reader.order import Shuffle
from dtsflow.seed.address import PHASE

Tree = dict[str, Any]

KEYS = tuple(field.name for field in fields(Phase))
"""What a phase has for itself; all else stands at the top and is shared."""

_OF_TRAINING = {"po": ("views", "batch"), "decode": ("sdmp_factor",)}
"""By group, what no other phase has unless it says so."""

_TARGET = f"{Phase.__module__}.{Phase.__qualname__}"
MISSING = "???"  # OmegaConf's mark of a value that must be given

_NAME = re.compile(r"[A-Za-z_]\w{0,31}")


def split_phases(values: Mapping[str, Any]) -> tuple[Tree, dict[str, Tree]]:
    """Part a composed tree: what all phases share, and each phase whole, by its name.

    Without `phases` in it there is one, `train`, of what stands at the top. No phase
    but `train` shuffles, has views, mixes its batches or decodes for several epochs,
    unless its own difference says so.

    Raises:
        ConfigError: `phases` does not map names to differences, or a difference has
            a key that no phase has.
    """
    shared = {key: value for key, value in values.items() if key not in (*KEYS, "phases")}
    top = {key: value for key, value in values.items() if key in KEYS}
    if not (given := values.get("phases")):
        return shared, {PHASE: _whole(top)}
    if not isinstance(given, Mapping):
        raise ConfigError(f"phases: {given!r} is no mapping of names to what differs there.")
    return shared, {str(name): _phase(str(name), diff, top) for name, diff in given.items()}


def _phase(name: str, diff: Any, top: Tree) -> Tree:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"phases: {name!r} is no name of a phase: letters, digits and _, 32 at the most."
        )
    if not isinstance(diff, Mapping | None):
        raise ConfigError(f"phases.{name}: {diff!r} is no mapping of keys to other values.")
    diff = diff or {}
    for key in diff:
        if key not in KEYS:
            raise ConfigError(
                f"phases.{name}.{key}: a phase has no such key of its own.{nearest(str(key), KEYS)}"
            )
    reader = diff.get("reader")
    if name != PHASE and not (isinstance(reader, Mapping) and "shuffle" in reader):
        top = _merged(top, {"reader": {"shuffle": Shuffle.NONE.value}})
    if name != PHASE:
        top = {key: _without(node, _OF_TRAINING.get(key, ())) for key, node in top.items()}
    return _whole(_merged(top, diff))


def _without(group: Any, keys: tuple[str, ...]) -> Any:
    if not isinstance(group, Mapping):
        return group
    return {key: value for key, value in group.items() if key not in keys}


def _whole(phase: Tree) -> Tree:
    """Return a phase; with a mix, a volume without a path is left out."""
    volume, reader = phase.get("volume"), phase.get("reader")
    has_mix = isinstance(reader, Mapping) and reader.get("mix") is not None
    if has_mix and isinstance(volume, Mapping) and volume.get("path") == MISSING:
        phase = {**phase, "volume": None}
    return {"_target_": _TARGET, **phase}


def _merged(base: Any, diff: Any) -> Any:
    """Return `base` with `diff` laid over it.

    Another `_target_` replaces a node whole.
    """
    if not (isinstance(base, Mapping) and isinstance(diff, Mapping)):
        return diff
    if diff.get("_target_", base.get("_target_")) != base.get("_target_"):
        return dict(diff)
    return {**base, **{key: _merged(base.get(key), value) for key, value in diff.items()}}


_SCHEDULES: Final = frozenset(
    f"{module}.{Schedule.__name__}" for module in ("dtsflow.po", Schedule.__module__)
)
_SCHEDULED: Final = f"{Scheduled.__module__}.{Scheduled.__name__}.of"


def lift_schedules(chain: Any, place: str, paths: dict[str, str]) -> Any:
    """Replace each operation that has a schedule by what makes all its forms.

    `chain` is the tree of a `po`, at `place` in the tree that Hydra gets. `paths` gets
    the places of the schedules, as `check_node` has it.
    """
    if isinstance(chain, list):
        return [
            lift_schedules(node, f"{place}{number}", paths) for number, node in enumerate(chain)
        ]
    if not isinstance(chain, Mapping):
        return chain
    if not any(map(_is_schedule, chain.values())):
        return {key: lift_schedules(node, f"{place}.{key}", paths) for key, node in chain.items()}
    values = {key: value for key, value in chain.items() if key != "_target_"}
    for key in values:
        paths[f"{place}.values.{key}"] = paths[f"{place}.{key}"]
    return {"_target_": _SCHEDULED, "operation": chain.get("_target_"), "values": values}


def _is_schedule(node: Any) -> bool:
    return isinstance(node, Mapping) and node.get("_target_") in _SCHEDULES


_PLAIN = (str, int, float, bool, list, tuple, type(None))  # what a person wrote


def build(values: Mapping[str, Any]) -> Pipeline:
    """Make the pipeline that a composed tree of plain values describes.

    Raises:
        ConfigError: A key, value, type or `_target_` is refused; names its config path.
    """
    tree, phases = split_phases(values)
    paths: dict[str, str] = {}
    check_node(tree, "", "", paths)
    for name, phase in phases.items():
        place = f"phases.{name}"
        check_node(phase, place, place if values.get("phases") else "", paths)
        phases[name] = {**phase, "po": lift_schedules(phase.get("po"), f"{place}.po", paths)}
    try:
        made = instantiate({**tree, "phases": phases}, _convert_="all")
    except InstantiationException as error:
        raise _located(error, paths) from error
    if not isinstance(made, Pipeline):
        raise ConfigError("The configuration's own _target_ must be dtsflow.pipeline.Pipeline.")
    return made


def check_node(node: Any, place: str, path: str, paths: dict[str, str]) -> None:
    """Check targets, keys and missing values of a tree before anything is instantiated.

    `place` is the node's in the tree that Hydra gets, `path` its own in the
    configuration. `paths` receives, for each node, Hydra's way to write its place and
    our path: Hydra 1.3 writes `po.operations1` for `po.operations[1]`.
    """
    paths[place.replace("[", "").replace("]", "")] = path
    if isinstance(node, Mapping):
        if "_target_" in node:
            _check_keys(node, path)
        for key, value in node.items():
            check_node(value, _joined(place, key), _joined(path, key), paths)
    elif isinstance(node, list):
        for number, value in enumerate(node):
            check_node(value, f"{place}[{number}]", f"{path}[{number}]", paths)
    elif node == MISSING:
        raise ConfigError(f"{path} has no value yet: give it one, as {path}=VALUE.")


def _joined(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _check_keys(node: Mapping[Any, Any], path: str) -> None:
    target = resolve_target(str(node["_target_"]), path or "the configuration")
    names = _names_of(target)
    for key in node:
        if key != "_target_" and key not in names:
            where = _joined(path, key)
            owner = target.__name__ if path else "the configuration"
            # At the top all keys are known, and one that only chooses options.
            names += [] if path else [*_names_of(Pipeline), *_names_of(Phase), "experiment"]
            raise ConfigError(f"{where}: {owner} has no such key.{nearest(str(key), names)}")


def _names_of(target: type[Any]) -> list[str]:
    return [field.name for field in fields(target)]


def _located(error: InstantiationException, paths: Mapping[str, str]) -> ConfigError:
    """Return what a class refused, with the config path instead of Hydra's wording."""
    found = re.search(r"full_key: (\S+)", str(error))
    path = ""
    if found:
        path = paths.get(re.sub(r"[\[\]]", "", found.group(1)), found.group(1))
    cause = error.__cause__
    if isinstance(cause, ValidationError):
        return ConfigError("; ".join(_refusals(cause, path)))
    if isinstance(cause, DtsflowError):
        return ConfigError(f"{path}: {cause}" if path else str(cause))
    return ConfigError(f"{path}: {cause or error}")


def _refusals(error: ValidationError, path: str) -> Iterator[str]:
    """Yield one sentence for each value that pydantic refused."""
    told = set()
    for refusal in error.errors(include_url=False, include_context=False):
        where = path
        for part in refusal["loc"]:
            if isinstance(part, int):
                where += f"[{part}]"
            elif part.isidentifier():  # a branch of a union is named by its type: no path
                where += f".{part}" if where else part
        where, got = _without_branch(where), refusal["input"]
        if where not in told:
            told.add(where)
            shown = f" (got {got!r})" if isinstance(got, _PLAIN) else ""
            yield f"{where}: {refusal['msg']}{shown}"


def _without_branch(where: str) -> str:
    """Leave out the name of a union's branch, which pydantic appends to the path."""
    return re.sub(r"\.(int|float|str|bool|none)$", "", where)
