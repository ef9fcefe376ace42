"""Fields that a batch has beside images and labels, wherever it lives."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fake_cuda import FakeCuda

from dtsflow.arena.arena import FieldForm, Form, image_form
from dtsflow.arena.batch import Batch
from dtsflow.arena.device_arena import DeviceArena
from dtsflow.arena.host import Host
from dtsflow.arena.staging import reserve_staging
from dtsflow.errors import MemoryPlanError
from dtsflow.memory.align import ALIGN
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.po.normalize import Normalize
from dtsflow.spec import ImageSpec
from dtsflow.station.double_buffer import DoubleBuffer
from dtsflow.station.zone import Zone
from dtsflow.tensor.dtype import DType

VIEW = image_form("small", ImageSpec(2, 3, 3, DType.FP16), 4)
FIELDS = (VIEW, FieldForm("soft_labels", (5,), DType.FP32), FieldForm("weight", (), DType.FP64))
TRAIN = Form(6, ImageSpec(4, 4, 3, DType.FP16), 4, fields=FIELDS)
VAL = Form(
    3, ImageSpec(5, 4, 3, DType.FP32), 3, fields=(FieldForm("soft_labels", (7,), DType.FP32),)
)
FORMS = {"train": TRAIN, "val": VAL, "plain": Form(2, ImageSpec(1, 1, 3), 3)}


def plan_of(forms: dict[str, Form]) -> MemoryPlan:
    plan = MemoryPlan().input_buffers(inputs=[form.buffer for form in forms.values()])
    reserve_staging(plan, forms)
    return plan.finalize()


def write(zone: Zone, first: int) -> None:
    """Fill all of a zone with numbers of its own; row 1 is missing."""
    zone.padded[...] = 0
    for number, name in enumerate(("images", *zone.fields), first):
        field = zone.field(name)
        field.stored[...] = 0
        field.array[...] = number
    zone.labels[:] = first
    zone.valid[:] = True
    zone.clear_rows(slice(1, 2))


def test_every_field_has_a_slot_of_its_own_in_both_zones() -> None:
    plan = plan_of(FORMS)
    for region in (Region.I_A_DATA, Region.I_B_DATA):
        named = {tensor.name: tensor for tensor in plan.region_tensors(region)}
        assert list(named) == ["images", "small", "soft_labels", "weight"]
        assert [str(form.shape) for form in named["soft_labels"].forms] == [
            "[6,1,1,5]",
            "[3,1,1,7]",
        ]
        assert named["small"].shape.c == 3
        assert named["weight"].dtype is DType.FP64


def test_fields_are_arrays_at_the_same_places_in_every_form() -> None:
    arena = Host().open(plan_of(FORMS), FORMS)
    for train, val, plain in zip(*(arena.zones[name] for name in FORMS), strict=True):
        assert train.fields["small"].stored.shape == (6, 2, 3, 4)
        assert train.fields["small"].array.shape == (6, 2, 3, 3)
        assert train.fields["weight"].array.shape == (6,)
        assert train.fields["weight"].array.dtype == np.float64
        assert val.fields["soft_labels"].array.shape == (3, 7)
        soft = [zone.fields["soft_labels"].array.ctypes.data for zone in (train, val)]
        assert soft[0] == soft[1]
        assert soft[0] % ALIGN == train.padded.ctypes.data % ALIGN
        assert not plain.fields
        for field in train.fields.values():
            assert field.array.ctypes.data == train.slots.ctypes.data + field.offset


def test_writing_one_field_touches_no_other_array() -> None:
    zone, other = Host().open(plan_of(FORMS), FORMS).zones["train"]
    write(zone, 1)
    for name in ("images", *zone.fields):
        field = zone.field(name)
        before = {one: zone.field(one).stored.copy() for one in ("images", *zone.fields)}
        field.stored[...] = 9
        del before[name]
        assert all(np.array_equal(zone.field(one).stored, was) for one, was in before.items())
    assert not other.slots.any()


def test_missing_rows_are_zeros_and_a_released_zone_is_nonsense_in_every_field() -> None:
    zone = Host().open(plan_of(FORMS), FORMS).zones["train"][0]
    zone.poison()
    for field in zone.fields.values():
        assert set(np.ascontiguousarray(field.stored).view(np.uint8).ravel().tolist()) == {0xFF}
    zone.clear_rows(slice(2, 4))
    for field in zone.fields.values():
        assert not field.stored[2:4].any()
        assert np.isnan(field.stored[4:]).all()


def test_a_field_of_four_sides_a_row_is_refused() -> None:
    form = replace(TRAIN, fields=(FieldForm("clip", (2, 3, 4, 5), DType.FP32),))
    with pytest.raises(MemoryPlanError, match="5 dimensions"):
        plan_of({"train": form})


def test_the_host_arena_delivers_the_fields_as_they_are() -> None:
    arena = Host().open(plan_of(FORMS), FORMS)
    double_buffer = DoubleBuffer(range(1), chunks=1)
    feed = arena.feed("train", double_buffer, timeout_s=1, progress=str, poison=False)
    write(arena.zones["train"][0], 3)
    double_buffer.finish(0)
    delivery = feed.take()
    assert list(delivery.fields) == ["small", "soft_labels", "weight"]
    assert delivery.fields["weight"].tolist() == [6, 0, 6, 6, 6, 6]


@pytest.mark.parametrize("is_finished_there", [False, True])
def test_the_device_arena_moves_every_field(*, is_finished_there: bool) -> None:
    normalize = Normalize(preset="imagenet", dtype=DType.FP16)
    finish = normalize.finish(3) if is_finished_there else None
    forms = {**FORMS, "train": replace(TRAIN, finish=finish)}
    plan = plan_of(forms)
    arena = DeviceArena(plan, forms, FakeCuda())
    kept: dict[str, Any] = {}
    for name in ("train", "val", "train"):
        double_buffer = DoubleBuffer(range(4), chunks=1)
        feed = arena.feed(name, double_buffer, timeout_s=60, progress=str, poison=True)
        for step in range(2):
            write(arena.zones[name][step], 10 * step)
            double_buffer.finish(step)
        for step in range(2):
            delivery = feed.take()
            assert delivery.zone == step
            for number, form in enumerate(forms[name].fields, 10 * step + 1):
                expected = np.full((forms[name].rows, *form.sides), number, form.dtype.numpy)
                expected[1] = 0
                assert np.array_equal(np.array(delivery.fields[form.name]), expected)
            kept = dict(delivery.fields)
            feed.give_back()
        feed.end()
    arena.close()
    assert all(np.isnan(np.array(array)).all() for array in kept.values())


def test_a_pinned_zone_is_as_large_as_what_its_forms_hold() -> None:
    forms = {"plain": FORMS["plain"]}
    plan = plan_of(FORMS)
    small = DeviceArena(plan, forms, FakeCuda()).zones["plain"][0].slots.nbytes
    large = DeviceArena(plan, FORMS, FakeCuda()).zones["train"][0]
    weight = large.fields["weight"]
    assert small == large.data_offset + 2 * 3
    assert large.slots.nbytes == weight.offset + weight.stored.nbytes


BATCH = Batch(
    images=np.zeros((3, 1, 1, 3)),
    padded=np.zeros((3, 1, 1, 3)),
    labels=np.array([1, -1, 2], np.int32),
    valid=np.array([True, False, True]),
    sample_ids=np.array([7, -1, 8]),
    phase="train",
    epoch=0,
    step=0,
    first_row=0,
    zone=0,
    fields={"soft_labels": np.arange(6).reshape(3, 2)},
)


def test_a_field_is_an_attribute_of_its_batch() -> None:
    assert BATCH.soft_labels is BATCH.fields["soft_labels"]
    with pytest.raises(AttributeError, match=r"no 'soft_label'.*soft_labels"):
        _ = BATCH.soft_label
    assert copy.copy(BATCH).soft_labels is BATCH.soft_labels
    assert not hasattr(replace(BATCH, fields={}), "soft_labels")


def test_a_compact_batch_has_the_valid_rows_of_every_field() -> None:
    found = BATCH.compact()
    assert found.soft_labels.tolist() == [[0, 1], [4, 5]]
    assert not np.shares_memory(found.soft_labels, BATCH.soft_labels)


class OfDevice:
    """What is asked of an array of a device."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.shape = array.shape
        self._array = array

    def get(self) -> np.ndarray[Any, Any]:
        return self._array.copy()


def test_the_fields_of_a_device_come_to_the_host_with_the_batch() -> None:
    there = replace(
        BATCH,
        images=OfDevice(BATCH.images),
        padded=OfDevice(BATCH.padded),
        labels=OfDevice(BATCH.labels),
        fields={"soft_labels": OfDevice(BATCH.soft_labels)},
    )
    assert np.array_equal(there.on_host().soft_labels, BATCH.soft_labels)
