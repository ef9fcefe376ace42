"""One plan for all that lies on a device: the input and what is declared beside it."""

from collections.abc import Callable, Sequence

from dtsflow.memory.baseline import allocate_baseline
from dtsflow.memory.budget import Budget
from dtsflow.memory.input_buffer import InputBuffer
from dtsflow.memory.plan import MemoryPlan
from dtsflow.tensor.shape import Shape


def device_plan(
    budget: Budget,
    inputs: Sequence[InputBuffer],
    reserve: Callable[[MemoryPlan], None] = lambda _: None,
) -> MemoryPlan:
    """The finished plan; `inputs` are the forms of a batch, the main one first.

    Ids are given in this order: input buffers, baseline tensors if `budget` has a
    `plan_config`, declared tensors, and what `reserve` allocates for the arena. The
    limit is not checked here: it covers memory that no plan of tensors knows of.

    Raises:
        MemoryPlanError: A declared tensor does not fit its region, the configuration
            or the others.
    """
    plan = MemoryPlan(budget.plan_config)
    if budget.plan_config is None:
        plan.input_buffers(inputs=inputs)
    else:
        allocate_baseline(plan, inputs)
    for tensor in budget.tensors:
        variants = [form.variant() for form in tensor.variants]
        shape = Shape.from_logical(tensor.shape)
        plan.allocate(tensor.region, shape, tensor.dtype, tensor.name, variants)
    reserve(plan)
    return plan.finalize()
