from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis.strategies import builds, integers, lists, sampled_from, tuples

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape

sides = integers(1, 40)
free = [region for region in Region if region.name[0] in "BISTFR"]
requests = tuples(sampled_from(free), builds(Shape, sides, sides, sides, sides))


def imagenet(dtype: DType, batch: int = 256) -> MemoryPlan:
    return MemoryPlan().input_buffers(batch=batch, image=Shape(1, 224, 224, 3), dtype=dtype)


@given(lists(requests, max_size=20))
def test_slots_are_aligned_in_order_and_disjoint(asked: list[tuple[Region, Shape]]) -> None:
    plan = MemoryPlan()
    for region, shape in asked:
        dtype = min(region.dtypes, key=lambda dtype: dtype.value)
        plan.allocate(region, shape, dtype)
    tensors = plan.finalize().tensors
    assert sorted(tensor.id for tensor in tensors) == list(range(len(asked)))
    assert all(tensor.offset % 256 == 0 for tensor in tensors)
    keys = [(tensor.region.index, tensor.id) for tensor in tensors]
    assert keys == sorted(keys)
    assert all(a.offset + a.slot_bytes == b.offset for a, b in pairwise(tensors))
    assert plan.total_bytes == sum(tensor.slot_bytes for tensor in tensors)
    assert plan.total_bytes == plan.range(Region.B_PREV_MEAN, Region.R_RESULT_ACCUMULATED)[1]
    for tensor in tensors:
        start, stop = plan.range(tensor.region, tensor.region)
        assert start <= tensor.offset < tensor.offset + tensor.slot_bytes <= stop


def test_the_zones_of_an_imagenet_batch_have_the_documented_size() -> None:
    assert imagenet(DType.FP32).finalize().zone_bytes == 154_142_720
    assert imagenet(DType.FP16).finalize().zone_bytes == 102_762_240
    assert imagenet(DType.FP16).finalize().total_bytes == 2 * 102_762_240


def test_labels_and_images_of_both_zones_lie_one_after_the_other() -> None:
    plan = imagenet(DType.FP32, batch=4).finalize()
    regions = [Region.I_A_LABEL, Region.I_A_DATA, Region.I_B_LABEL, Region.I_B_DATA]
    assert [tensor.region for tensor in plan.tensors] == regions
    assert [tensor.name for tensor in plan.tensors] == ["labels", "images"] * 2
    assert [plan.tensor(i).id for i in range(4)] == [0, 1, 2, 3]
    assert plan.tensor(0).shape == Shape(4, 1, 1, 1)
    assert plan.tensor(0).dtype is DType.INT32
    assert plan.tensor(3).shape == Shape(4, 224, 224, 3)
    assert plan.region_offset(Region.I_B_LABEL) == plan.zone_bytes
    assert plan.region_tensors(Region.I_B_DATA) == (plan.tensor(3),)
    assert plan.region_tensors(Region.W_FC_BIAS) == ()
    start, stop = plan.range(Region.I_B_LABEL, Region.I_B_DATA)
    assert (start, stop) == (plan.zone_bytes, plan.total_bytes)


def test_a_tensor_has_no_offset_until_the_plan_is_final() -> None:
    plan = MemoryPlan()
    later = plan.allocate(Region.T_TEMP_FP32, Shape(1, 1, 1, 1), DType.FP32, "scratch")
    first = plan.allocate(Region.B_PREV_MEAN, Shape(1, 1, 1, 1), DType.FP32)
    assert (later.id, later.offset, first.id, first.offset) == (0, -1, 1, -1)
    plan.finalize()
    assert plan.tensor(first.id).offset == 0
    assert plan.tensor(later.id).offset == 512
    assert plan.tensor(later.id).name == "scratch"


def test_an_empty_region_lies_where_the_next_tensor_begins() -> None:
    plan = imagenet(DType.FP32, batch=1).finalize()
    assert plan.region_bytes(Region.W_FC_BIAS) == 0
    assert plan.region_offset(Region.W_FC_BIAS) == 0
    assert plan.region_offset(Region.T_TEMP_INT8) == plan.total_bytes
    assert plan.range(Region.N_DEEP_CONV, Region.I_A_DATA) == (0, plan.zone_bytes)


def test_an_empty_plan_is_final_too() -> None:
    plan = MemoryPlan().finalize()
    assert plan.total_bytes == plan.zone_bytes == 0
    assert plan.tensors == ()
    with pytest.raises(MemoryPlanError, match="the plan is final"):
        plan.finalize()


def test_a_region_refuses_a_type_that_it_does_not_hold() -> None:
    with pytest.raises(MemoryPlanError, match=r"I_A_LABEL .* FP32\[1,1,1,1\], and it holds INT32"):
        MemoryPlan().allocate(Region.I_A_LABEL, Shape(1, 1, 1, 1), DType.FP32)


def test_nothing_can_be_added_to_a_final_plan() -> None:
    plan = imagenet(DType.FP16).finalize()
    before = plan.digest()
    shape = Shape(1, 1, 1, 1)
    with pytest.raises(MemoryPlanError, match=r"cannot allocate .* T_TEMP_FP32: the plan is final"):
        plan.allocate(Region.T_TEMP_FP32, shape, DType.FP32)
    with pytest.raises(MemoryPlanError, match="the plan is final"):
        plan.input_buffers(batch=1, image=shape, dtype=DType.FP32)
    with pytest.raises(MemoryPlanError, match="cannot finalize it again"):
        plan.finalize()
    assert plan.digest() == before


@pytest.mark.parametrize(
    "ask",
    [
        lambda plan: plan.total_bytes,
        lambda plan: plan.tensors,
        lambda plan: plan.zone_bytes,
        lambda plan: plan.tensor(0),
        lambda plan: plan.region_offset(Region.I_A_DATA),
        lambda plan: plan.region_bytes(Region.I_A_DATA),
        lambda plan: plan.range(Region.I_A_LABEL, Region.I_A_DATA),
        lambda plan: plan.digest(),
        lambda plan: plan.table(),
    ],
)
def test_an_open_plan_has_no_addresses_to_give(ask: Callable[[MemoryPlan], object]) -> None:
    with pytest.raises(MemoryPlanError, match=r"not final, and its 4 tensors .* finalize\(\)"):
        ask(imagenet(DType.FP32))


def test_a_plan_that_fails_its_validation_stays_open() -> None:
    plan = MemoryPlan()
    plan.allocate(Region.W_FC_BIAS, Shape(1, 1, 1, 10), DType.FP32)
    with pytest.raises(MemoryPlanError, match="G_FC_BIAS holds 0 tensors and W_FC_BIAS 1"):
        plan.finalize()
    plan.allocate(Region.G_FC_BIAS, Shape(1, 1, 1, 10), DType.FP32)
    assert plan.finalize().total_bytes == 2 * 512


def test_zones_that_differ_have_no_common_size() -> None:
    plan = imagenet(DType.FP32, batch=1)
    plan.allocate(Region.I_A_DATA, Shape(1, 1, 1, 1), DType.UINT8)
    plan.finalize()
    with pytest.raises(MemoryPlanError, match=r"zone A has 60\d+ bytes and zone B 60\d+"):
        _ = plan.zone_bytes


def test_further_fields_make_both_zones_bigger() -> None:
    plan = imagenet(DType.FP32, batch=1)
    for region in (Region.I_A_DATA, Region.I_B_DATA):
        plan.allocate(region, Shape.from_logical((1, 2)), DType.FP64, "place")
    assert plan.finalize().zone_bytes == imagenet(DType.FP32, batch=1).finalize().zone_bytes + 1024


def test_a_run_from_a_later_region_to_an_earlier_one_is_refused() -> None:
    plan = imagenet(DType.FP32).finalize()
    with pytest.raises(MemoryPlanError, match="regions 50 and 49 in memory order"):
        plan.range(Region.I_A_DATA, Region.I_A_LABEL)


def test_an_unknown_tensor_is_refused() -> None:
    with pytest.raises(MemoryPlanError, match="tensor 4 was asked for, and this plan has 4"):
        imagenet(DType.FP32).finalize().tensor(4)


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(MemoryPlanError, match="n is 0"):
        imagenet(DType.FP32, batch=0)


def test_equal_plans_have_equal_digests_and_any_change_shows() -> None:
    def digest(batch: int, dtype: DType, *, extra: bool = False) -> str:
        plan = imagenet(dtype, batch)
        if extra:
            plan.allocate(Region.T_TEMP_INT8, Shape(1, 1, 1, 1), DType.UINT8)
        return plan.finalize().digest()

    assert digest(8, DType.FP16) == digest(8, DType.FP16)
    different = {
        digest(8, DType.FP16),
        digest(9, DType.FP16),
        digest(8, DType.BF16),
        digest(8, DType.FP32),
        digest(8, DType.FP16, extra=True),
    }
    assert len(different) == 5


def test_the_digest_is_what_it_has_always_been() -> None:
    assert imagenet(DType.FP32).finalize().digest() == (
        "c5109c004f8f80263a220826365fcc2a1e8a5ff2efda7667f68530424c554f55"
    )


def test_the_table_has_a_line_for_every_tensor_and_the_total() -> None:
    lines = imagenet(DType.FP32).finalize().table().splitlines()
    assert len(lines) == 1 + 1 + 4 + 1 + 1
    assert lines[3].split() == [
        "I_A_DATA",
        "images",
        "[256,224,224,3]",
        "FP32",
        "1,536",
        "154,141,184",
        "147.0",
        "MiB",
    ]
    assert lines[-1].split()[-3:] == ["308,285,440", "294.0", "MiB"]
