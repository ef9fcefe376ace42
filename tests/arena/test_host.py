import numpy as np
import pytest

from dtsflow.arena.arena import Form
from dtsflow.arena.host import Host
from dtsflow.memory.align import ALIGN
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.spec import ImageSpec
from dtsflow.station.double_buffer import DoubleBuffer
from dtsflow.station.zone import Zone
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape


def plan_of(dtype: DType, batch: int = 6) -> MemoryPlan:
    return MemoryPlan().input_buffers(batch=batch, image=Shape(1, 5, 7, 3), dtype=dtype).finalize()


def zones_of(plan: MemoryPlan, dtype: DType, stored: int) -> tuple[Zone, Zone]:
    form = Form(6, ImageSpec(5, 7, 3, dtype), stored)
    return Host().open(plan, {"train": form}).zones["train"]


@pytest.mark.parametrize(("dtype", "stored"), [(DType.FP16, 4), (DType.FP16, 3), (DType.FP32, 3)])
def test_zones_are_the_input_slots_of_the_plan(dtype: DType, stored: int) -> None:
    plan = plan_of(dtype)
    zones = zones_of(plan, dtype, stored)
    base = zones[0].slots.ctypes.data - plan.region_offset(Region.I_A_LABEL)
    regions = ((Region.I_A_LABEL, Region.I_A_DATA), (Region.I_B_LABEL, Region.I_B_DATA))
    for zone, (label, data) in zip(zones, regions, strict=True):
        assert zone.labels.ctypes.data == base + plan.region_offset(label)
        assert zone.padded.ctypes.data == base + plan.region_offset(data)
        assert zone.images.ctypes.data == zone.padded.ctypes.data
        assert zone.labels.ctypes.data % ALIGN == zone.padded.ctypes.data % ALIGN == 0
        assert zone.padded.shape == (6, 5, 7, stored)
        assert zone.images.shape == (6, 5, 7, 3)
        assert zone.images.dtype == dtype.numpy
        assert zone.slots.nbytes == plan.zone_bytes


def test_writing_one_zone_does_not_touch_the_other() -> None:
    first, second = zones_of(plan_of(DType.FP32), DType.FP32, 3)
    first.slots[:] = 1
    assert not second.slots.any()
    assert not second.padded.any()


def test_missing_rows_hold_nothing_and_poison_holds_nonsense() -> None:
    zone = zones_of(plan_of(DType.FP16), DType.FP16, 4)[0]
    zone.poison()
    assert np.isnan(zone.images.astype(np.float32)).all()
    assert (zone.labels == -1).all()
    zone.clear_rows(slice(2, 4))
    assert zone.labels[2:4].tolist() == [-1, -1]
    assert zone.sample_ids[2:4].tolist() == [-1, -1]
    assert zone.valid[2:4].tolist() == [False, False]
    assert not zone.padded[2:4].any()
    assert np.isnan(zone.padded[4:].astype(np.float32)).all()


def test_phases_of_different_sizes_share_the_addresses_of_both_zones() -> None:
    large = Form(6, ImageSpec(5, 7, 3, DType.FP32), 3)
    small = Form(4, ImageSpec(2, 2, 1, DType.UINT8), 1)
    plan = MemoryPlan().input_buffers(inputs=[small.buffer, large.buffer]).finalize()
    arena = Host().open(plan, {"train": large, "val": small})
    for one, other in zip(arena.zones["train"], arena.zones["val"], strict=True):
        for name in ("labels", "padded", "valid", "sample_ids"):
            pair = getattr(one, name), getattr(other, name)
            assert pair[0].ctypes.data == pair[1].ctypes.data
            assert [len(array) for array in pair] == [6, 4]
        assert other.padded.shape == (4, 2, 2, 1)
    first, second = arena.zones["train"]
    first.slots[:] = 1
    assert not second.padded.any()


def test_after_its_end_a_feed_gives_back_no_zone() -> None:
    form = Form(6, ImageSpec(5, 7, 3, DType.FP32), 3)
    arena = Host().open(plan_of(DType.FP32), {"train": form})
    double_buffer = DoubleBuffer(range(4), chunks=1)
    feed = arena.feed("train", double_buffer, timeout_s=1, progress=str, poison=True)
    double_buffer.finish(0)
    assert feed.take().step == 0
    arena.zones["train"][0].labels[:] = 5
    feed.end()
    feed.give_back()
    assert (arena.zones["train"][0].labels == 5).all()
    assert double_buffer.wait(1) == 0
