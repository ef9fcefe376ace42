import pytest

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.device_plan import allocate_baseline
from dtsflow.memory.plan import InputBuffer, MemoryPlan
from dtsflow.memory.region import Optimizer, PlanConfig, Region
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape
from dtsflow.tensor.tensor import DTensor

INPUT = InputBuffer(8, Shape(1, 4, 4, 3), DType.FP32)
COMMON = [
    "I_A_LABEL labels",
    "I_A_DATA images",
    "I_B_LABEL labels",
    "I_B_DATA images",
    "T_TEMP_INT32 loss labels",
    "S_SCALAR_INT32 has nan",
    "S_SCALAR_FP32 learning rate",
    "S_SCALAR_FP32 loss scale",
    "S_SCALAR_FP32 label smoothing",
    "R_RESULT loss",
    "R_RESULT top1",
    "R_RESULT top5",
    "S_SCALAR_INT32 batch",
    "S_SCALAR_INT32 last train batch",
    "S_SCALAR_INT32 last val batch",
    "R_RESULT_ACCUMULATED loss",
    "R_RESULT_ACCUMULATED top1",
    "R_RESULT_ACCUMULATED top5",
]
MOMENTUM = ["S_SCALAR_FP32 beta", "S_SCALAR_FP32 weight decay"]
ADAM = [
    "S_SCALAR_FP32 beta2",
    "S_SCALAR_FP32 adam epsilon",
    "S_SCALAR_INT32 step",
    "S_SCALAR_FP32 bias correction 1",
    "S_SCALAR_FP32 bias correction 2",
]
LARS = ["S_SCALAR_FP32 trust coefficient", "S_SCALAR_FP32 lars epsilon"]
LAST = [
    "S_SCALAR_INT32 dropout seed",
    "S_SCALAR_FP32 bn epsilon",
    "S_SCALAR_FP32 bn momentum",
]


def baseline(optimizer: Optimizer, *inputs: InputBuffer) -> list[DTensor]:
    plan = MemoryPlan(PlanConfig(optimizer=optimizer))
    allocate_baseline(plan, inputs or (INPUT,))
    return sorted(plan.finalize().tensors, key=lambda tensor: tensor.id)


@pytest.mark.parametrize(
    ("optimizer", "own"),
    [
        ("sgd", []),
        ("momentum", MOMENTUM),
        ("nesterov", MOMENTUM),
        ("lars", [*MOMENTUM, *LARS]),
        ("adam", [*MOMENTUM, *ADAM]),
        ("adamw", [*MOMENTUM, *ADAM]),
    ],
)
def test_the_baseline_has_its_tensors_in_the_order_of_their_ids(
    optimizer: Optimizer, own: list[str]
) -> None:
    made = [f"{tensor.region.name} {tensor.name}" for tensor in baseline(optimizer)]
    assert made == [*COMMON, *own, *LAST]


def test_scalars_are_single_elements_and_the_dropout_seed_has_64_bits() -> None:
    for tensor in baseline("adam")[5:]:
        seed = tensor.name == "dropout seed"
        assert tuple(tensor.shape) == (1, 1, 1, 2 if seed else 1)
        assert tensor.slot_bytes == 512


def test_the_copy_of_the_labels_takes_every_form_that_they_take() -> None:
    short = InputBuffer(3, Shape(1, 9, 9, 3), DType.FP32)
    labels, images, *_, copy = baseline("sgd", short, INPUT)[:5]
    assert [form.shape.n for form in copy.forms] == [form.shape.n for form in labels.forms]
    assert [form.shape.n for form in images.forms] == [3, 8]
    assert copy.region is Region.T_TEMP_INT32


def test_a_baseline_needs_a_configuration_and_an_input() -> None:
    with pytest.raises(MemoryPlanError, match="without a configuration"):
        allocate_baseline(MemoryPlan(), [INPUT])
    plan = MemoryPlan(PlanConfig())
    with pytest.raises(MemoryPlanError, match="without any input"):
        allocate_baseline(plan, [])
    assert plan.finalize().tensors == ()
