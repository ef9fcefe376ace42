"""From plain values to a pipeline: check, then instantiate."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from pydantic import ValidationError

from dtsflow.configurable import nearest, resolve_target
from dtsflow.errors import ConfigError, DtsflowError
from dtsflow.phase import Phase
from dtsflow.phases import MISSING, split_phases
from dtsflow.pipeline import Pipeline
from dtsflow.schedules import lift_schedules

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
    """What a class refused, with the config path instead of Hydra's wording."""
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
    """One sentence for each value that pydantic refused."""
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
