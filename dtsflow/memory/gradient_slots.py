"""Slots for the gradients of features, used again layer after layer."""

from collections.abc import Sequence
from typing import Final

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import HALF, Region, Variant
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape
from dtsflow.tensor.tensor import DTensor

COUNT: Final = 4  # slots that a plan may have


class GradientSlots:
    """Up to four slots of a plan, numbered from 0, each reserved when first asked for.

    A backward pass needs the gradient of a layer's output and input at the same time, a
    branch two more; the next layer uses the same slots again.
    """

    def __init__(self, plan: MemoryPlan) -> None:
        self._plan = plan
        self._slots: dict[int, DTensor] = {}

    def slot(
        self, number: int, shape: Shape, dtype: DType, variants: Sequence[Variant] = ()
    ) -> DTensor:
        """Return the tensor of a slot: a new one, or the one that it was given already.

        Raises:
            MemoryPlanError: There is no such slot, it has another form, or the plan
                refuses it.
        """
        if not 0 <= number < COUNT:
            raise MemoryPlanError(
                f"gradient slot {number} was asked for, and a plan has {COUNT}, numbered from 0."
            )
        forms = Variant(shape, dtype), *variants
        if number not in self._slots:
            region = Region.F_GRAD_SLOT_FP16 if dtype in HALF else Region.F_GRAD_SLOT_FP32
            name = f"gradient slot {number}"
            self._slots[number] = self._plan.allocate(region, shape, dtype, name, variants)
        slot = self._slots[number]
        has = Variant(slot.shape, slot.dtype), *slot.variants
        if has != forms:
            raise MemoryPlanError(
                f"gradient slot {number} holds {_list(has)} and was asked to hold "
                f"{_list(forms)}. Ask for the same forms, or use another slot."
            )
        return slot


def _list(forms: Sequence[Variant]) -> str:
    return " or ".join(map(str, forms))
