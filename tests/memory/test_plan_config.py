import pytest
from pydantic import ValidationError

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import PlanConfig, Region
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape

ONE = Shape(1, 1, 1, 1)
EVERYTHING = [
    PlanConfig(amp=amp, optimizer=optimizer, ema=True)
    for amp in (True, False)
    for optimizer in ("lars", "adam")
]


def refused(config: PlanConfig) -> set[str]:
    return {region.name for region in Region if not config.allows(region)}


def names(*prefixes: str) -> set[str]:
    return {region.name for region in Region if region.name.startswith(prefixes)}


HALF = {*names("A_"), *(f"G_{each}_FP16" for each in ("FC_WEIGHT", "FIRST_CONV", "DEEP_CONV"))} | {
    "S_SCALAR_FP16",
    "F_FEATURE_FP16",
    "F_GRAD_SLOT_FP16",
}
SINGLE = {"F_FEATURE_FP32", "F_GRAD_SLOT_FP32"}


def test_each_condition_closes_the_regions_it_is_about() -> None:
    full = PlanConfig(amp=True, optimizer="adam", ema=True)
    assert refused(full) == SINGLE | names("N_")
    assert refused(PlanConfig(amp=True, optimizer="lars", ema=True)) == SINGLE | names("V_")
    assert refused(PlanConfig(amp=False, optimizer="adam", ema=True)) == (
        HALF | names("N_") | {name for name in names("E_") if name.endswith("FP16")}
    )
    assert refused(PlanConfig(amp=True, optimizer="adam", ema=False)) == (
        SINGLE | names("N_", "E_")
    )
    assert refused(PlanConfig(amp=True, optimizer="adam", ema=True, folded_bn=False)) == (
        SINGLE | names("N_", "W_EQ_")
    )


@pytest.mark.parametrize(
    ("optimizer", "without"),
    [
        ("sgd", ("M_", "V_", "N_")),
        ("momentum", ("V_", "N_")),
        ("nesterov", ("V_", "N_")),
        ("lars", ("V_",)),
        ("adam", ("N_",)),
        ("adamw", ("N_",)),
    ],
)
def test_an_optimizer_has_the_moments_that_it_uses(
    optimizer: str, without: tuple[str, ...]
) -> None:
    config = PlanConfig(optimizer=optimizer, amp=True, ema=True)  # type: ignore[arg-type]  # checked when made
    assert refused(config) == SINGLE | names(*without)


def test_every_region_is_of_use_in_some_configuration() -> None:
    assert all(any(config.allows(region) for config in EVERYTHING) for region in Region)


def test_a_refusal_names_every_condition_that_is_not_met() -> None:
    plan = MemoryPlan(PlanConfig(optimizer="momentum"))
    with pytest.raises(MemoryPlanError, match=r"E_DEEP_CONV_FP16 .* ema=True and amp=True\."):
        plan.allocate(Region.E_DEEP_CONV_FP16, ONE, DType.FP16)
    with pytest.raises(MemoryPlanError, match=r"V_BN_BIAS .* needs optimizer=adam\|adamw\."):
        plan.allocate(Region.V_BN_BIAS, ONE, DType.FP32)
    assert plan.finalize().tensors == ()


def test_without_a_configuration_every_region_is_open() -> None:
    plan = MemoryPlan()
    for region in (Region.F_FEATURE_FP32, Region.F_FEATURE_FP16, Region.W_EQ_BIAS):
        plan.allocate(region, ONE, min(region.dtypes, key=lambda dtype: dtype.value))
    assert len(plan.finalize().tensors) == 3


@pytest.mark.parametrize(
    "wrong", [{"optimizer": "sgdm"}, {"amp": "maybe"}, {"use_lars": True}, {"ema": None}]
)
def test_configurations_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        PlanConfig(**wrong)  # type: ignore[arg-type]  # that it is refused is the test


@pytest.mark.parametrize(
    ("config", "missing"),
    [
        (PlanConfig(optimizer="momentum"), "M_FC_BIAS"),
        (PlanConfig(optimizer="sgd", ema=True), "E_FC_BIAS"),
    ],
)
def test_a_configured_plan_must_hold_every_helper_of_a_weight(
    config: PlanConfig, missing: str
) -> None:
    plan = MemoryPlan(config)
    for name in ("W_FC_BIAS", "G_FC_BIAS"):
        plan.allocate(Region[name], ONE, DType.FP32)
    with pytest.raises(MemoryPlanError, match=f"{missing} holds 0 tensors and W_FC_BIAS 1"):
        plan.finalize()
    plan.allocate(Region[missing], ONE, DType.FP32)
    assert len(plan.finalize().tensors) == 3


def test_mixed_precision_demands_copies_of_the_weights_that_decay() -> None:
    plan = MemoryPlan(PlanConfig(optimizer="sgd", amp=True))
    for name in ("W_FC_WEIGHT", "G_FC_WEIGHT"):
        plan.allocate(Region[name], ONE, DType.FP32)
    with pytest.raises(MemoryPlanError, match="A_FC_WEIGHT holds 0 tensors and W_FC_WEIGHT 1"):
        plan.finalize()
    plan.allocate(Region.A_FC_WEIGHT, ONE, DType.BF16)
    with pytest.raises(MemoryPlanError, match="G_FC_WEIGHT_FP16 holds 0 tensors"):
        plan.finalize()
    plan.allocate(Region.G_FC_WEIGHT_FP16, ONE, DType.BF16)
    assert plan.finalize().total_bytes == 2 * 512 + 2 * 256
