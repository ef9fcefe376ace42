from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis.strategies import builds, integers, lists, sampled_from, tuples

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.plan import InputBuffer, MemoryPlan
from dtsflow.memory.region import Region, Variant, slot_bytes
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape

sides = integers(1, 20)
shapes = builds(Shape, sides, sides, sides, sides)
forms = lists(builds(Variant, shapes, sampled_from(DType)), min_size=1, max_size=5)
slots = lists(tuples(sampled_from([Region.I_A_DATA, Region.I_B_DATA]), forms), max_size=6)

SMALL = InputBuffer(8, Shape(1, 32, 32, 3), DType.FP16)
BIG = InputBuffer(8, Shape(1, 64, 64, 3), DType.FP16)
LAST = InputBuffer(3, Shape(1, 64, 64, 3), DType.FP16)


@given(slots)
def test_a_slot_is_the_largest_of_its_forms_and_slots_stay_disjoint(
    asked: list[tuple[Region, list[Variant]]],
) -> None:
    plan = MemoryPlan()
    for region, (main, *others) in asked:
        plan.allocate(region, main.shape, main.dtype, variants=others)
    tensors = plan.finalize().tensors
    assert all(a.offset + a.slot_bytes == b.offset for a, b in pairwise(tensors))
    for tensor in tensors:
        own = [slot_bytes(form.shape, form.dtype, form.region) for form in tensor.forms]
        assert tensor.slot_bytes == max(own)
        assert tensor.offset % 256 == 0


@given(slots)
def test_which_form_is_the_main_one_moves_nothing(
    asked: list[tuple[Region, list[Variant]]],
) -> None:
    def places(*, reverse: bool) -> list[tuple[int, int]]:
        plan = MemoryPlan()
        for region, of_slot in asked:
            main, *others = reversed(of_slot) if reverse else of_slot
            plan.allocate(region, main.shape, main.dtype, variants=others)
        return [(tensor.id, tensor.offset) for tensor in plan.finalize().tensors]

    assert places(reverse=False) == places(reverse=True)


@given(shapes, shapes)
def test_a_variant_that_is_no_bigger_changes_no_offset(one: Shape, other: Shape) -> None:
    big = Shape(*(max(pair) for pair in zip(one, other, strict=True)))
    plain, shared = MemoryPlan(), MemoryPlan()
    plain.allocate(Region.F_FEATURE_FP16, big, DType.FP16)
    shared.allocate(Region.F_FEATURE_FP16, big, DType.FP16, variants=[Variant(one, DType.BF16)])
    for plan in (plain, shared):
        plan.allocate(Region.T_TEMP_FP32, other, DType.FP32)
        plan.finalize()
    assert [t.offset for t in plain.tensors] == [t.offset for t in shared.tensors]
    assert plain.total_bytes == shared.total_bytes


def test_a_form_has_the_place_of_its_tensor_and_strides_of_its_own() -> None:
    plan = MemoryPlan().input_buffers(inputs=[BIG, SMALL]).finalize()
    (images,) = plan.region_tensors(Region.I_B_DATA)
    main, small = images.forms
    assert main is images
    assert small == images.as_variant(0)
    assert (small.id, small.offset, small.slot_bytes) == (3, images.offset, images.slot_bytes)
    assert images.padded_strides == (64 * 64 * 4, 64 * 4, 4, 1)
    assert small.padded_strides == (32 * 32 * 4, 32 * 4, 4, 1)
    assert small.nbytes == 8 * 32 * 32 * 3 * 2
    assert small.variants == ()


@pytest.mark.parametrize("i", [-1, 1])
def test_a_variant_that_there_is_not_is_refused(i: int) -> None:
    plan = MemoryPlan().input_buffers(inputs=[BIG, SMALL])
    with pytest.raises(MemoryPlanError, match=rf"variant {i} of tensor 1 'images' .* it has 1,"):
        plan.finalize().tensor(1).as_variant(i)


def test_labels_and_images_have_a_form_for_every_input() -> None:
    plan = MemoryPlan().input_buffers(inputs=[SMALL, LAST, BIG]).finalize()
    for region in (Region.I_A_LABEL, Region.I_B_LABEL):
        (labels,) = plan.region_tensors(region)
        assert [form.shape.n for form in labels.forms] == [8, 3, 8]
    for region in (Region.I_A_DATA, Region.I_B_DATA):
        (images,) = plan.region_tensors(region)
        assert [str(form.shape) for form in images.forms] == [
            "[8,32,32,3]",
            "[3,64,64,3]",
            "[8,64,64,3]",
        ]
    alone = MemoryPlan().input_buffers(inputs=[BIG]).finalize()
    assert plan.zone_bytes == alone.zone_bytes


def test_one_input_is_what_its_three_facts_say() -> None:
    listed = MemoryPlan().input_buffers(inputs=[BIG]).finalize()
    plain = MemoryPlan().input_buffers(batch=8, image=BIG.image, dtype=DType.FP16).finalize()
    assert listed.tensors == plain.tensors
    assert listed.digest() == plain.digest()


def test_the_digest_tells_forms_apart_though_nothing_moves() -> None:
    inputs = ([BIG], [BIG, SMALL], [BIG, LAST], [BIG, SMALL, SMALL])
    plans = [MemoryPlan().input_buffers(inputs=each).finalize() for each in inputs]
    assert len({plan.total_bytes for plan in plans}) == 1
    assert len({plan.digest() for plan in plans}) == 4


def test_every_form_must_have_a_type_that_the_region_holds() -> None:
    shape = Shape(1, 1, 1, 1)
    with pytest.raises(MemoryPlanError, match=r"T_TEMP_FP16 was asked to hold FP32\[1,1,1,1\]"):
        MemoryPlan().allocate(
            Region.T_TEMP_FP16, shape, DType.FP16, variants=[Variant(shape, DType.FP32)]
        )


def test_the_table_shows_the_other_forms_below_their_tensor() -> None:
    lines = MemoryPlan().input_buffers(inputs=[BIG, SMALL]).finalize().table().splitlines()
    assert lines[4].split()[:4] == ["I_A_DATA", "images", "[8,64,64,3]", "FP16"]
    assert lines[5].split() == ["or", "[8,32,32,3]", "FP16"]
    assert lines[-1].split()[:3] == ["total", "4", "tensors"]
