from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from dtsflow.config.compose import compose
from dtsflow.errors import ConfigError, MemoryPlanError
from dtsflow.memory import Budget
from dtsflow.memory.device_plan import device_plan
from dtsflow.memory.plan import InputBuffer, MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.pipeline.build import build
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape

INPUT = InputBuffer(8, Shape(1, 4, 4, 3), DType.FP16)
SCRATCH = {"name": "scratch", "region": "T_TEMP_FP32", "shape": [10, 16], "dtype": "FP32"}


def budget(*tensors: Mapping[str, Any], **rest: Any) -> Budget:
    return Budget(tensors=tensors, **rest)  # type: ignore[arg-type]  # pydantic makes them


def test_without_declared_tensors_the_plan_is_the_input() -> None:
    plan = device_plan(Budget(), [INPUT])
    alone = MemoryPlan().input_buffers(inputs=[INPUT]).finalize()
    assert plan.tensors == alone.tensors
    assert plan.digest() == alone.digest()


def test_declared_tensors_lie_in_their_regions_with_their_forms() -> None:
    bigger = {"shape": [10, 64], "dtype": "FP32"}
    plan = device_plan(budget({**SCRATCH, "variants": [bigger]}), [INPUT])
    (tensor,) = plan.region_tensors(Region.T_TEMP_FP32)
    assert (tensor.id, tensor.name, tensor.shape) == (4, "scratch", Shape(10, 1, 1, 16))
    assert tensor.as_variant(0).shape == Shape(10, 1, 1, 64)
    assert tensor.slot_bytes == 2 * 1536  # 640 elements: 2 * align256(1296)


def test_declaring_tensors_behind_the_input_moves_no_zone() -> None:
    plain, more = device_plan(Budget(), [INPUT]), device_plan(budget(SCRATCH, SCRATCH), [INPUT])
    for region in (Region.I_A_LABEL, Region.I_A_DATA, Region.I_B_LABEL, Region.I_B_DATA):
        assert plain.region_tensors(region) == more.region_tensors(region)


def test_a_training_step_brings_its_baseline_before_the_declared_tensors() -> None:
    plan = device_plan(budget(SCRATCH, plan_config={"optimizer": "sgd"}), [INPUT])
    assert plan.tensor(4).name == "loss labels"
    assert plan.tensors[-1].name == "top5"
    assert (
        max(tensor.id for tensor in plan.tensors) == plan.region_tensors(Region.T_TEMP_FP32)[0].id
    )


def test_what_is_declared_must_fit_the_training_step() -> None:
    half = {**SCRATCH, "region": "F_FEATURE_FP16", "dtype": "FP16"}
    assert device_plan(budget(half, plan_config={"amp": True}), [INPUT]).total_bytes > 0
    with pytest.raises(MemoryPlanError, match=r"F_FEATURE_FP16 .* needs amp=True"):
        device_plan(budget(half, plan_config={"amp": False}), [INPUT])
    with pytest.raises(MemoryPlanError, match="T_TEMP_FP32 was asked to hold INT8"):
        device_plan(budget({**SCRATCH, "dtype": "INT8"}), [INPUT])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"region": "T_TMP_FP32"}, r"no region 'T_TMP_FP32'\. Did you mean 'T_TEMP_FP32'\?"),
        ({"region": "I_A_DATA"}, "I_A_DATA is filled by the run itself"),
        ({"region": 62}, "region"),
        ({"shape": [0]}, "greater than or equal to 1"),
        ({"shape": []}, "at least 1 item"),
        ({"shape": [1, 2, 3, 4, 5]}, "at most 4 items"),
        ({"dtype": "FP8"}, "'FP16'"),
        ({"name": ""}, "at least 1 character"),
        ({"offset": 0}, "Unexpected keyword"),
        ({"variants": [{"shape": [1]}]}, "dtype"),
    ],
)
def test_declarations_that_make_no_sense_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        budget({**SCRATCH, **wrong})


def test_a_configuration_declares_tensors_and_its_mistakes_have_their_path() -> None:
    words = ["volume.path=somewhere", "po=imagenet_val"]
    declared = "{name: scratch, region: REGION, shape: [10, 16], dtype: FP32}"
    good = f"memory.tensors=[{declared.replace('REGION', 'T_TEMP_FP32')}]"
    made = build(compose([*words, good, "memory.plan_config={amp: true}"]).values).memory
    assert made == budget(SCRATCH, plan_config={"amp": True})
    bad = f"memory.tensors=[{declared.replace('REGION', 'T_TEMP')}]"
    with pytest.raises(ConfigError, match=r"^memory\.tensors\[0\]\.region: .* no region 'T_TEMP'"):
        build(compose([*words, bad]).values)
