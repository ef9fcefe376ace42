"""Regions, slots and the memory plan: every byte of a run, planned before it exists.

`MemoryPlan` gives each tensor a `DTensor`, with a place in its `Region`;
`PlanConfig` says which regions a plan may use. `Budget`, `Declared` and `Form` are what
a configuration says of memory.

Each name is imported when it is first used, for tensors lie in regions of memory, and
memory is made of tensors: whichever package comes first needs the other.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dtsflow.memory.device_plan import Budget, Declared, Form
    from dtsflow.memory.plan import InputBuffer, MemoryPlan, named_range
    from dtsflow.memory.region import PlanConfig, Region, Variant
    from dtsflow.tensor.tensor import DTensor

__all__ = [
    "Budget",
    "DTensor",
    "Declared",
    "Form",
    "InputBuffer",
    "MemoryPlan",
    "PlanConfig",
    "Region",
    "Variant",
    "named_range",
]

_HOMES = {
    "Budget": "dtsflow.memory.device_plan",
    "DTensor": "dtsflow.tensor.tensor",
    "Declared": "dtsflow.memory.device_plan",
    "Form": "dtsflow.memory.device_plan",
    "InputBuffer": "dtsflow.memory.plan",
    "MemoryPlan": "dtsflow.memory.plan",
    "PlanConfig": "dtsflow.memory.region",
    "Region": "dtsflow.memory.region",
    "Variant": "dtsflow.memory.region",
    "named_range": "dtsflow.memory.plan",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
