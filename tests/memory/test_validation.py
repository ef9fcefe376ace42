from collections.abc import Callable
from dataclasses import replace

import pytest

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import Region, slot_bytes
from dtsflow.memory.validation import (
    check_alignment,
    check_contiguity,
    check_layers,
    check_region_order,
    validate,
)
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape
from dtsflow.tensor.tensor import DTensor

ONE = Shape(1, 1, 1, 1)
LAYERS = ["BN_BIAS", "BN_WEIGHT", "FC_BIAS", "FC_WEIGHT", "FIRST_CONV", "DEEP_CONV"]


def finished() -> tuple[DTensor, ...]:
    image = Shape(1, 8, 8, 3)
    plan = MemoryPlan().input_buffers(batch=4, image=image, dtype=DType.FP16)
    return plan.finalize().tensors


def moved(region: Region, by: int) -> list[DTensor]:
    return [
        replace(tensor, offset=tensor.offset + by) if tensor.region is region else tensor
        for tensor in finished()
    ]


def filled(*names: str, times: int = 1) -> list[DTensor]:
    made: list[DTensor] = []
    for name in names * times:
        region = Region[name]
        dtype = DType.FP32 if DType.FP32 in region.dtypes else DType.FP16
        size = slot_bytes(ONE, dtype, region)
        made.append(DTensor(len(made), "", ONE, dtype, region, size, 0))
    return made


def trained() -> list[str]:
    return [f"{family}_{layer}" for family in "WG" for layer in LAYERS]


def test_a_finished_plan_passes_every_check() -> None:
    validate(finished())
    validate([])


def test_a_region_that_begins_before_the_one_ahead_of_it_is_named() -> None:
    swapped = moved(Region.I_A_DATA, -512)
    check_region_order(swapped)  # level with its neighbour is still in order
    base = finished()[3].offset
    with pytest.raises(MemoryPlanError, match=f"I_A_DATA begins at byte {base + 512} and I_B_"):
        check_region_order(moved(Region.I_A_DATA, base))


@pytest.mark.parametrize("region", [Region.I_A_DATA, Region.I_B_LABEL, Region.I_B_DATA])
@pytest.mark.parametrize("by", [256, -256])
def test_a_gap_or_an_overlap_between_labels_and_data_is_found(region: Region, by: int) -> None:
    tensors = moved(region, by)
    end = next(tensor.offset for tensor in finished() if tensor.region is region)
    with pytest.raises(MemoryPlanError, match=rf"byte {end + by}, .* ends at byte {end}\."):
        check_contiguity(tensors)


def test_a_plan_that_does_not_start_at_byte_0_is_refused() -> None:
    with pytest.raises(MemoryPlanError, match=r"begins at byte 256, .* ends at byte 0\."):
        check_contiguity([replace(tensor, offset=tensor.offset + 256) for tensor in finished()])


def test_an_offset_between_multiples_of_256_is_refused() -> None:
    offset = finished()[1].offset + 16
    with pytest.raises(MemoryPlanError, match=f"begins at byte {offset}, 16 bytes past .* 256"):
        check_alignment(moved(Region.I_A_DATA, 16))


def test_without_weights_nothing_is_demanded() -> None:
    check_layers(finished())
    check_layers(filled("S_SCALAR_FP32", "F_FEATURE_FP16"))


def test_every_weight_needs_a_gradient() -> None:
    check_layers(filled(*trained(), times=2))
    with pytest.raises(MemoryPlanError, match="G_DEEP_CONV holds 0 tensors and W_DEEP_CONV 2"):
        check_layers(filled("W_DEEP_CONV", times=2))
    with pytest.raises(MemoryPlanError, match="G_FC_BIAS holds 1 tensors and W_FC_BIAS 0"):
        check_layers(filled("G_FC_BIAS"))


@pytest.mark.parametrize(
    "family",
    [
        [f"M_{layer}" for layer in LAYERS],
        [f"V_{layer}" for layer in LAYERS],
        [f"E_{layer}" for layer in LAYERS],
        [f"N_{layer}" for layer in LAYERS[3:]],
        [f"A_{layer}" for layer in LAYERS[3:]],
        [f"E_{layer}_FP16" for layer in LAYERS[3:]],
        [f"G_{layer}_FP16" for layer in LAYERS[3:]],
    ],
    ids=lambda names: names[0],
)
def test_moments_and_copies_are_complete_or_absent(family: list[str]) -> None:
    check_layers(filled(*trained(), *family))
    with pytest.raises(MemoryPlanError, match=f"{family[-1]} holds 0 tensors and W_DEEP_CONV 1"):
        check_layers(filled(*trained(), *family[:-1]))
    with pytest.raises(MemoryPlanError, match=f"{family[0]} holds 2 tensors and W_.* 1:"):
        check_layers(filled(*trained(), *family, family[0]))


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        (check_region_order, moved(Region.I_A_DATA, 1 << 20)),
        (check_contiguity, moved(Region.I_A_DATA, 256)),
        (check_layers, filled("W_FC_BIAS")),
        (check_alignment, moved(Region.I_A_DATA, 1)),
    ],
)
def test_validating_runs_every_check(
    check: Callable[[list[DTensor]], None], broken: list[DTensor]
) -> None:
    for run in (check, validate):
        with pytest.raises(MemoryPlanError):
            run(broken)


def test_a_helper_must_have_room_for_as_many_elements_as_its_weight() -> None:
    big, small = Shape(1, 1, 1, 500), Shape(1, 1, 1, 200)
    plan = MemoryPlan()
    for name, shapes in (("W_FC_WEIGHT", (big, ONE)), ("G_FC_WEIGHT", (ONE, big))):
        for shape in shapes:
            plan.allocate(Region[name], shape, DType.FP32)
    with pytest.raises(MemoryPlanError, match=r"tensor 2 .* for 128 elements, .* for 512\."):
        plan.finalize()
    # A copy of half the width is compared by elements, not by bytes.
    plan = MemoryPlan()
    for name, dtype in (("W_FC_WEIGHT", DType.FP32), ("G_FC_WEIGHT", DType.FP32)):
        plan.allocate(Region[name], big, dtype)
    plan.allocate(Region.A_FC_WEIGHT, small, DType.FP16)
    with pytest.raises(MemoryPlanError, match=r"tensor 2 FP16.* for 256 elements, .* for 512\."):
        plan.finalize()
