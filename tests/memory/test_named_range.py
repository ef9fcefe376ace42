import pytest
from hypothesis import given
from hypothesis.strategies import builds, integers, lists, tuples

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.plan import NAMED_RANGES, MemoryPlan, named_range
from dtsflow.memory.region import PlanConfig, Region
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape

LAYERS = ["BN_BIAS", "BN_WEIGHT", "FC_BIAS", "FC_WEIGHT", "FIRST_CONV", "DEEP_CONV"]
sides = integers(1, 12)
weights = lists(tuples(integers(0, 5), builds(Shape, sides, sides, sides, sides)), max_size=12)


def trained(shapes: list[tuple[int, Shape]]) -> MemoryPlan:
    plan = MemoryPlan(PlanConfig(amp=True, optimizer="adam", ema=True))
    for layer, shape in shapes:
        name = LAYERS[layer]
        for family in "WGMVE":
            plan.allocate(Region[f"{family}_{name}"], shape, DType.FP32)
        if layer >= 3:
            for copy in (f"A_{name}", f"G_{name}_FP16", f"E_{name}_FP16"):
                plan.allocate(Region[copy], shape, DType.FP16)
    return plan.finalize()


def elements(plan: MemoryPlan, name: str, itemsize: int) -> int:
    start, stop = plan.named_range(name)
    assert (stop - start) % itemsize == 0
    return (stop - start) // itemsize


@given(weights)
def test_runs_that_one_kernel_walks_together_have_equal_element_counts(
    shapes: list[tuple[int, Shape]],
) -> None:
    plan = trained(shapes)
    for part in ("", "_decayed", "_undecayed"):
        counts = {
            elements(plan, f"{family}{part}", 4)
            for family in ("weights", "gradients", "first_moments", "second_moments", "ema")
        }
        assert len(counts) == 1
    for family in ("weights", "gradients", "ema"):
        single, half = elements(plan, f"{family}_decayed", 4), elements(plan, f"{family}_half", 2)
        assert single == half


@given(weights)
def test_the_two_buckets_and_the_parts_of_a_family_leave_nothing_out(
    shapes: list[tuple[int, Shape]],
) -> None:
    plan = trained(shapes)
    start, stop = plan.named_range("gradients")
    bucket_2, bucket_1 = plan.named_range("reduce_bucket_2"), plan.named_range("reduce_bucket_1")
    assert (bucket_2[0], bucket_1[1]) == (start, plan.range(Region.R_RESULT, Region.R_RESULT)[1])
    assert bucket_2[1] == bucket_1[0] <= stop <= bucket_1[1]
    undecayed, decayed = (plan.named_range(f"weights_{part}") for part in ("undecayed", "decayed"))
    assert (undecayed[0], decayed[1]) == plan.named_range("weights")
    assert undecayed[1] == decayed[0]


def test_clearing_the_gradients_clears_the_results_between_them_too() -> None:
    first, last = named_range("gradients_to_clear")
    held = [region.name for region in Region if first.index <= region.index <= last.index]
    assert held == [
        *(f"G_{layer}" for layer in LAYERS),
        "R_RESULT",
        *(f"G_{layer}_FP16" for layer in LAYERS[3:]),
    ]


@pytest.mark.parametrize("name", NAMED_RANGES)
def test_every_run_goes_forward(name: str) -> None:
    first, last = named_range(name)
    assert first.index <= last.index


def test_a_name_that_there_is_not_is_refused_with_the_nearest() -> None:
    with pytest.raises(MemoryPlanError, match=r"named 'weight'\. Did you mean 'weights'\?"):
        MemoryPlan().finalize().named_range("weight")


def test_an_open_plan_has_no_runs_yet() -> None:
    with pytest.raises(MemoryPlanError, match="not final"):
        MemoryPlan().named_range("weights")
