"""The tensors beside the zones that a device needs to normalise by itself."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from dtsflow.arena.arena import Form
from dtsflow.errors import MemoryPlanError
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape
from dtsflow.tensor.tensor import DTensor

_PIXELS: Final = "staged pixels"
_VALID: Final = "staged valid rows"


def reserve_staging(plan: MemoryPlan, forms: Mapping[str, Form]) -> None:
    """Reserve, in an open plan, what the phases with a `finish` need; often nothing.

    One slot for UINT8 pixels as they arrive and one for which rows there are, both for
    the largest phase, and each phase's scale and offset. One of each is enough for two
    zones, for a single stream does both copies and kernels.
    """
    finished = {name: form for name, form in forms.items() if form.finish is not None}
    if not finished:
        return
    largest = max(finished.values(), key=lambda form: staged_shape(form).numel)
    rows = max(form.rows for form in finished.values())
    plan.allocate(Region.T_TEMP_INT8, staged_shape(largest), DType.UINT8, _PIXELS)
    plan.allocate(Region.T_TEMP_INT8, Shape(rows, 1, 1, 1), DType.UINT8, _VALID)
    for name, form in finished.items():
        assert form.pixels is not None  # records have nothing to finish
        shape = Shape(2, 1, 1, form.pixels.channels)
        plan.allocate(Region.T_TEMP_FP32, shape, DType.FP32, _factors(name))


def staged_shape(form: Form) -> Shape:
    """Return the pixels of a batch as the workers leave them for a device."""
    return replace(form.image, n=form.rows)


class Staging:
    """The tensors that `reserve_staging` reserved for a phase.

    Attributes:
        pixels: UINT8, of at least the phase's batch.
        valid: UINT8, of at least its rows.
        factors: FP32 (2, 1, 1, C): a of y = x * a + b a channel, then b.

    Raises:
        MemoryPlanError: They are not in the plan.
    """

    def __init__(self, plan: MemoryPlan, phase: str) -> None:
        self.pixels = _find(plan, Region.T_TEMP_INT8, _PIXELS)
        self.valid = _find(plan, Region.T_TEMP_INT8, _VALID)
        self.factors = _find(plan, Region.T_TEMP_FP32, _factors(phase))


def _factors(phase: str) -> str:
    return f"scale and offset of {phase}"


def _find(plan: MemoryPlan, region: Region, name: str) -> DTensor:
    for tensor in plan.region_tensors(region):
        if tensor.name == name:
            return tensor
    raise MemoryPlanError(
        f"normalize_on is device, and the plan has no {name!r} in {region.name}. Call "
        "reserve_staging() before finalize()."
    )
