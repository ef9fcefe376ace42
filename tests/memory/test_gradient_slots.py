import pytest

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.gradient_slots import GradientSlots
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import PlanConfig, Region, Variant
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape

SHAPE = Shape(2, 4, 4, 6)
SMALL = Variant(Shape(2, 2, 2, 6), DType.FP32)


def test_a_slot_is_reserved_once_however_often_it_is_asked_for() -> None:
    plan = MemoryPlan()
    slots = GradientSlots(plan)
    first = [slots.slot(number, SHAPE, DType.FP32, [SMALL]) for number in (2, 0, 2, 2, 0)]
    assert [tensor.id for tensor in first] == [0, 1, 0, 0, 1]
    plan.finalize()
    assert [tensor.name for tensor in plan.region_tensors(Region.F_GRAD_SLOT_FP32)] == [
        "gradient slot 2",
        "gradient slot 0",
    ]
    assert slots.slot(2, SHAPE, DType.FP32, [SMALL]).id == 0  # also when the plan is final


@pytest.mark.parametrize("dtype", [DType.FP16, DType.BF16])
def test_half_precision_slots_are_padded_and_lie_in_their_own_region(dtype: DType) -> None:
    slot = GradientSlots(MemoryPlan(PlanConfig(amp=True))).slot(0, SHAPE, dtype)
    assert slot.region is Region.F_GRAD_SLOT_FP16
    assert slot.padded_c == 8


def test_another_form_of_a_slot_in_use_is_refused() -> None:
    slots = GradientSlots(MemoryPlan())
    slots.slot(1, SHAPE, DType.FP32)
    with pytest.raises(
        MemoryPlanError, match=r"slot 1 holds FP32\[2,4,4,6\] and .* FP32\[2,2,2,6\]"
    ):
        slots.slot(1, SMALL.shape, DType.FP32)
    with pytest.raises(MemoryPlanError, match=r"slot 1 holds FP32\[2,4,4,6\] and .* FP16"):
        slots.slot(1, SHAPE, DType.FP16)
    with pytest.raises(MemoryPlanError, match=r"to hold FP32\[2,4,4,6\] or FP32\[2,2,2,6\]"):
        slots.slot(1, SHAPE, DType.FP32, [SMALL])


@pytest.mark.parametrize("number", [-1, 4])
def test_there_are_four_slots(number: int) -> None:
    with pytest.raises(MemoryPlanError, match=f"slot {number} was asked for, and a plan has 4"):
        GradientSlots(MemoryPlan()).slot(number, SHAPE, DType.FP32)


def test_the_plan_decides_on_types_and_precision() -> None:
    single, half = (GradientSlots(MemoryPlan(PlanConfig(amp=amp))) for amp in (False, True))
    with pytest.raises(MemoryPlanError, match=r"needs amp=True"):
        single.slot(0, SHAPE, DType.FP16)
    with pytest.raises(MemoryPlanError, match=r"needs amp=False"):
        half.slot(0, SHAPE, DType.FP32)
    with pytest.raises(MemoryPlanError, match=r"F_GRAD_SLOT_FP32 was asked to hold INT32"):
        single.slot(0, SHAPE, DType.INT32)
    assert single.slot(0, SHAPE, DType.FP32).id == 0  # what was refused took no slot
