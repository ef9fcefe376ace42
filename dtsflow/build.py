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
from dtsflow.pipeline import Pipeline

_PLAIN = (str, int, float, bool, list, tuple, type(None))  # what a person wrote
MISSING = "???"  # OmegaConf's mark of a value that must be given


def build(values: Mapping[str, Any]) -> Pipeline:
    """Make the pipeline that a composed tree of plain values describes.

    Raises:
        ConfigError: A key, value, type or `_target_` is refused; names its config path.
    """
    values = _without_unset_volume(values)
    paths: dict[str, str] = {}
    check_node(values, "", paths)
    try:
        made = instantiate(dict(values), _convert_="all")
    except InstantiationException as error:
        raise _located(error, paths) from error
    if not isinstance(made, Pipeline):
        raise ConfigError("The configuration's own _target_ must be dtsflow.pipeline.Pipeline.")
    return made


def _without_unset_volume(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """With a mix, a volume whose path was never given is none."""
    reader, volume = values.get("reader"), values.get("volume")
    if (
        isinstance(reader, Mapping)
        and isinstance(volume, Mapping)
        and reader.get("mix") is not None
    ):
        return {**values, "volume": None} if volume.get("path") == MISSING else values
    return values


def check_node(node: Any, path: str, paths: dict[str, str]) -> None:
    """Check targets, keys and missing values of a tree before anything is instantiated.

    `paths` receives, for each node, Hydra's way to write its place and ours: Hydra 1.3
    writes `po.operations1` for `po.operations[1]`.
    """
    paths[path.replace("[", "").replace("]", "")] = path
    if isinstance(node, Mapping):
        if "_target_" in node:
            _check_keys(node, path)
        for key, value in node.items():
            check_node(value, f"{path}.{key}" if path else str(key), paths)
    elif isinstance(node, list):
        for number, value in enumerate(node):
            check_node(value, f"{path}[{number}]", paths)
    elif node == MISSING:
        raise ConfigError(f"{path} has no value yet: give it one, as {path}=VALUE.")


def _check_keys(node: Mapping[Any, Any], path: str) -> None:
    target = resolve_target(str(node["_target_"]), path or "the configuration")
    names = [field.name for field in fields(target)]
    for key in node:
        if key != "_target_" and key not in names:
            where = f"{path}.{key}" if path else str(key)
            names += [] if path else ["experiment"]  # a choice of options, at the top only
            raise ConfigError(
                f"{where}: {target.__name__} has no such key.{nearest(str(key), names)}"
            )


def _located(error: InstantiationException, paths: Mapping[str, str]) -> ConfigError:
    """What a class refused, with the config path instead of Hydra's wording."""
    found = re.search(r"full_key: (\S+)", str(error))
    path = paths.get(found.group(1), found.group(1)) if found else ""
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
