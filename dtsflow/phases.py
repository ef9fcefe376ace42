"""Phases as a configuration writes them: differences from what stands at its top."""

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dtsflow.configurable import nearest
from dtsflow.errors import ConfigError
from dtsflow.phase import Phase
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
        ConfigError: `phases` is no mapping of names to differences, or a difference has
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
    """A phase; with a mix, a volume whose path was never given is none."""
    volume, reader = phase.get("volume"), phase.get("reader")
    has_mix = isinstance(reader, Mapping) and reader.get("mix") is not None
    if has_mix and isinstance(volume, Mapping) and volume.get("path") == MISSING:
        phase = {**phase, "volume": None}
    return {"_target_": _TARGET, **phase}


def _merged(base: Any, diff: Any) -> Any:
    """`base` with `diff` laid over it; another `_target_` replaces a node whole."""
    if not (isinstance(base, Mapping) and isinstance(diff, Mapping)):
        return diff
    if diff.get("_target_", base.get("_target_")) != base.get("_target_"):
        return dict(diff)
    return {**base, **{key: _merged(base.get(key), value) for key, value in diff.items()}}
