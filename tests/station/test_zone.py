from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from dtsflow.arena.arena import Form
from dtsflow.arena.host import Host
from dtsflow.memory.plan import MemoryPlan
from dtsflow.spec import ImageSpec
from dtsflow.station.zone import Zone
from dtsflow.tensor.dtype import DType


@pytest.fixture(params=[DType.FP16, DType.UINT8])
def zone(request: pytest.FixtureRequest) -> Zone:
    """Five rows, all holding 7s."""
    form = Form(5, ImageSpec(3, 2, 3, request.param), 4 if request.param is DType.FP16 else 3)
    plan = MemoryPlan().input_buffers(batch=5, image=form.image, dtype=request.param).finalize()
    made = Host().open(plan, {"train": form}).zones["train"][0]
    for array in (made.labels, made.padded, made.sample_ids):
        array[:] = 7
    made.valid[:] = True
    return made


def test_cleared_rows_are_missing_and_their_neighbours_stay(zone: Zone) -> None:
    zone.clear_rows(slice(1, 3))
    assert zone.labels.tolist() == [7, -1, -1, 7, 7]
    assert zone.sample_ids.tolist() == [7, -1, -1, 7, 7]
    assert zone.valid.tolist() == [True, False, False, True, True]
    assert zone.padded.reshape(5, -1).any(axis=1).tolist() == [True, False, False, True, True]


def test_poison_reaches_every_array_of_the_zone(zone: Zone) -> None:
    zone.poison()
    for array in (zone.slots, zone.labels, zone.padded, zone.images, zone.valid, zone.sample_ids):
        assert set(np.ascontiguousarray(array).view(np.uint8).ravel().tolist()) == {0xFF}


def test_a_zone_keeps_its_arrays(zone: Zone) -> None:
    with pytest.raises(FrozenInstanceError):
        zone.labels = np.zeros(5, np.int32)  # type: ignore[misc]  # that it is refused is the test
