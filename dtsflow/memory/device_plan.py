"""The plan of a device's memory: the input, and what is declared beside it.

`Budget` is what a run plans beside its input, with a limit for all of it. `Declared` is
a tensor that a configuration adds. `allocate_baseline` adds the tensors that every
training step has, whatever its model.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from dtsflow.config.configurable import configurable
from dtsflow.errors import MemoryPlanError
from dtsflow.memory.limit import memory_limit
from dtsflow.memory.plan import InputBuffer, MemoryPlan
from dtsflow.memory.region import PlanConfig, Region, Variant
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import RANK, Shape

_ONE: Final = Shape(1, 1, 1, 1)
_SEED: Final = Shape(1, 1, 1, 2)  # 64 bits as two words
_WORD: Final = Region.S_SCALAR_INT32
_REAL: Final = Region.S_SCALAR_FP32
_METRICS: Final = ("loss", "top1", "top5")


def allocate_baseline(plan: MemoryPlan, inputs: Sequence[InputBuffer]) -> None:
    """Reserve input buffers, a copy of the labels, and the scalars of a training step.

    They come in Tech-Renaissance's order, so in an empty plan they have its ids. The
    optimizer of the plan's configuration decides on the scalars.

    Raises:
        MemoryPlanError: The plan is final or has no configuration, or there is no
            input.
    """
    if plan.config is None or not inputs:
        raise MemoryPlanError(
            "baseline tensors were asked for without "
            f"{'a configuration' if plan.config is None else 'any input'}. Make the plan as "
            "MemoryPlan(PlanConfig(...)), and name at least one InputBuffer."
        )
    plan.input_buffers(inputs=inputs)
    main, *others = (form.labels for form in inputs)
    plan.allocate(Region.T_TEMP_INT32, main.shape, main.dtype, "loss labels", others)
    for region, shape, name in _scalars(plan.config):
        dtype = DType.INT32 if region is _WORD else DType.FP32
        plan.allocate(region, shape, dtype, name)


def _scalars(config: PlanConfig) -> Iterator[tuple[Region, Shape, str]]:
    yield _WORD, _ONE, "has nan"
    for name in ("learning rate", "loss scale", "label smoothing"):
        yield _REAL, _ONE, name
    for name in _METRICS:
        yield Region.R_RESULT, _ONE, name
    for name in ("batch", "last train batch", "last val batch"):
        yield _WORD, _ONE, name
    for name in _METRICS:
        yield Region.R_RESULT_ACCUMULATED, _ONE, name
    yield from ((region, _ONE, name) for region, name in _of_optimizer(config))
    yield _WORD, _SEED, "dropout seed"
    for name in ("bn epsilon", "bn momentum"):
        yield _REAL, _ONE, name


def _of_optimizer(config: PlanConfig) -> Iterator[tuple[Region, str]]:
    if config.has_momentum:
        yield _REAL, "beta"
        yield _REAL, "weight decay"
    if config.is_adam:
        yield _REAL, "beta2"
        yield _REAL, "adam epsilon"
        yield _WORD, "step"
        yield _REAL, "bias correction 1"
        yield _REAL, "bias correction 2"
    if config.is_lars:
        yield _REAL, "trust coefficient"
        yield _REAL, "lars epsilon"


def _region(value: Any) -> Any:
    """Look up the region of that name, for pydantic to check that it is one."""
    if not isinstance(value, str):
        return value
    try:
        region = Region.named(value)
    except MemoryPlanError as error:
        raise ValueError(str(error)) from error
    if region.name.startswith("I_"):
        raise ValueError(f"{region.name} is filled by the run itself. Choose another region.")
    return region


Sides = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1, max_length=RANK)]


@configurable
class Form:
    """A shape and type that a declared tensor has at some other time.

    Attributes:
        shape: One to four sides, batch first, channels last.
        dtype: The element type.
    """

    shape: Sides
    dtype: DType

    def variant(self) -> Variant:
        """Return the same form with all four sides."""
        return Variant(Shape.from_logical(self.shape), self.dtype)


@configurable
class Declared:
    """A tensor that the plan gets beside those that the run itself needs.

    Attributes:
        name: Its name in tables and messages.
        region: The region of its slot; not an input region, which the run fills.
        shape: One to four sides, batch first, channels last: (O, I) is [O,1,1,I].
        dtype: An element type that the region holds.
        variants: Other forms that its slot must have room for.
    """

    name: Annotated[str, Field(min_length=1)]
    region: Annotated[Region, BeforeValidator(_region)]
    shape: Sides
    dtype: DType
    variants: tuple[Form, ...] = ()


@configurable
class Budget:
    """Refuse a plan of more than `limit` bytes; name what it holds beside the input.

    Attributes:
        limit: Bytes, or `auto`: what the machine and its control group allow.
        tensors: Further tensors, so that one plan covers a device.
        plan_config: The training step that the plan is for: the plan then has its
            baseline tensors too, and only its regions. None: any region, no baseline.
    """

    limit: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    tensors: tuple[Declared, ...] = ()
    plan_config: PlanConfig | None = None

    def allowed_bytes(self) -> int:
        """Return the limit in bytes."""
        return memory_limit() if self.limit == "auto" else self.limit

    def check(self, entries: Mapping[str, int]) -> None:
        """Refuse `entries` (bytes by name) when their sum is over the limit.

        Raises:
            MemoryPlanError: Both numbers, and the biggest entries.
        """
        needed, allowed = sum(entries.values()), self.allowed_bytes()
        if needed > allowed:
            biggest = sorted(entries.items(), key=lambda entry: -entry[1])[:3]
            raise MemoryPlanError(
                f"The plan needs {needed:,} bytes and memory.limit is {allowed:,}. The biggest "
                f"entries: {', '.join(f'{name} {size:,}' for name, size in biggest)}. Choose a "
                "smaller batch_size or data set, or raise memory.limit."
            )


def device_plan(
    budget: Budget,
    inputs: Sequence[InputBuffer],
    reserve: Callable[[MemoryPlan], None] = lambda _: None,
) -> MemoryPlan:
    """Return the finished plan; `inputs` are the forms of a batch, the main one first.

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
