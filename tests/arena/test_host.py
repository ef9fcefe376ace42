import numpy as np
import pytest

from dtsflow.arena.host import Host
from dtsflow.memory.align import ALIGN
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape


def plan_of(dtype: DType, batch: int = 6) -> MemoryPlan:
    return MemoryPlan().input_buffers(batch=batch, image=Shape(1, 5, 7, 3), dtype=dtype).finalize()


@pytest.mark.parametrize(("dtype", "stored"), [(DType.FP16, 4), (DType.FP16, 3), (DType.FP32, 3)])
def test_zones_are_the_input_slots_of_the_plan(dtype: DType, stored: int) -> None:
    plan = plan_of(dtype)
    arena = Host().open(plan, stored)
    base = arena.zones[0].slots.ctypes.data - plan.region_offset(Region.I_A_LABEL)
    regions = ((Region.I_A_LABEL, Region.I_A_DATA), (Region.I_B_LABEL, Region.I_B_DATA))
    for zone, (label, data) in zip(arena.zones, regions, strict=True):
        assert zone.labels.ctypes.data == base + plan.region_offset(label)
        assert zone.padded.ctypes.data == base + plan.region_offset(data)
        assert zone.images.ctypes.data == zone.padded.ctypes.data
        assert zone.labels.ctypes.data % ALIGN == zone.padded.ctypes.data % ALIGN == 0
        assert zone.padded.shape == (6, 5, 7, stored)
        assert zone.images.shape == (6, 5, 7, 3)
        assert zone.images.dtype == dtype.numpy
        assert zone.slots.nbytes == plan.zone_bytes


def test_writing_one_zone_does_not_touch_the_other() -> None:
    first, second = Host().open(plan_of(DType.FP32), 3).zones
    first.slots[:] = 1
    assert not second.slots.any()
    assert not second.padded.any()


def test_missing_rows_hold_nothing_and_poison_holds_nonsense() -> None:
    zone = Host().open(plan_of(DType.FP16), 4).zones[0]
    zone.poison()
    assert np.isnan(zone.images.astype(np.float32)).all()
    assert (zone.labels == -1).all()
    zone.clear_rows(slice(2, 4))
    assert zone.labels[2:4].tolist() == [-1, -1]
    assert zone.sample_ids[2:4].tolist() == [-1, -1]
    assert zone.valid[2:4].tolist() == [False, False]
    assert not zone.padded[2:4].any()
    assert np.isnan(zone.padded[4:].astype(np.float32)).all()
