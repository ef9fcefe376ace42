"""The tensors that every training step has, whatever its model."""

from collections.abc import Iterator, Sequence
from typing import Final

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.input_buffer import InputBuffer
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.plan_config import PlanConfig
from dtsflow.memory.region import Region
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape

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
