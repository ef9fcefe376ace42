"""Schedules as a configuration writes them: in place of an attribute's value."""

from collections.abc import Mapping
from typing import Any, Final

from dtsflow.po.schedule import Schedule
from dtsflow.po.scheduled import Scheduled

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
