"""Operations as a plan shows them, one line each."""

from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import pairwise
from typing import Any, Final

from dtsflow.po.scheduled import Scheduled

_SHOWN: Final = 4  # changes of an operation that are told one by one


def describe(chain: Iterable[object]) -> list[str]:
    """One line an operation: as it is in epoch 0, and what it becomes later."""
    return [_line(operation) for operation in chain]


def _line(operation: object) -> str:
    if isinstance(operation, Scheduled):
        return f"{_line(operation.at(0))}{_changes(operation)}"
    values = _values(operation)
    shown = [f"{name}={_text(value)}" for name, value in values.items() if value is not None]
    return f"{type(operation).__name__}({', '.join(shown)})"


def _changes(scheduled: Scheduled) -> str:
    stages = scheduled.stages
    if len(stages) > 1 + _SHOWN:
        last = _values(stages[-1][1])
        changed = ", ".join(f"{name}={_text(last[name])}" for name in _changed(scheduled))
        return f", {len(stages) - 1} changes to {changed} from epoch {stages[-1][0]} on"
    told = ""
    for (_, one), (epoch, other) in pairwise(stages):
        before = _values(one)
        new = {name: of_it for name, of_it in _values(other).items() if of_it != before[name]}
        shown = ", ".join(f"{name}={_text(value)}" for name, value in new.items())
        told += f", from epoch {epoch} {shown}"
    return told


def _changed(scheduled: Scheduled) -> list[str]:
    """The attributes that are not the same in all epochs."""
    first = _values(scheduled.at(0))
    stages = [_values(one) for _, one in scheduled.stages]
    return [name for name, value in first.items() if any(one[name] != value for one in stages)]


def _values(operation: object) -> Mapping[str, Any]:
    declared = getattr(operation, "__dataclass_fields__", ())
    return {name: getattr(operation, name) for name in declared}


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(_text(part) for part in value)})"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value.value if isinstance(value, Enum) else value)
