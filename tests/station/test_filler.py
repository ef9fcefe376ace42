from typing import cast

import numpy as np
import pytest

from dtsflow.arena.host import Host
from dtsflow.errors import DecodeError
from dtsflow.memory.plan import MemoryPlan
from dtsflow.reader.order import Order, Rows, Shuffle
from dtsflow.reader.resident import ResidentStore
from dtsflow.reader.row_table import RowTable
from dtsflow.reader.samples import Samples
from dtsflow.station.engine import Address, Places, StageTimes
from dtsflow.station.filler import Filler
from dtsflow.station.zone import Zone
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape

ADDRESS = Address(seed=1, epoch=0, phase=0)


class FakeStore:
    """Has samples without bytes; label is id + 100."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def gather(self, rows: Rows) -> Samples:
        assert rows.valid.all()
        self.asked.append(rows.ids.tolist())
        nothing = np.zeros(len(rows), np.int64)
        labels = (rows.ids + 100).astype(np.int32)
        return Samples(np.empty(0, np.uint8), nothing, nothing, labels, rows.ids)


class FakeEngine:
    """Writes a sample's id + 1 into each of its pixels."""

    def __init__(self) -> None:
        self.times = StageTimes()

    def fill(self, samples: Samples, address: Address, zone: Zone, places: Places) -> None:
        assert address is ADDRESS
        zone.padded[places] = (samples.ids + 1).astype(np.uint8)[:, None, None, None]


@pytest.fixture
def zones() -> tuple[Zone, Zone]:
    plan = MemoryPlan().input_buffers(batch=8, image=Shape(1, 2, 2, 3), dtype=DType.UINT8)
    made = Host().open(plan.finalize(), 3).zones
    for zone in made:
        zone.poison()
    return made


def filler_of(
    zones: tuple[Zone, Zone], samples: int = 13, store: FakeStore | None = None
) -> Filler:
    order = Order(np.array([samples], np.int64), 8, 2, seed=0, shuffle=Shuffle.NONE)
    return Filler(
        store=cast("ResidentStore", store or FakeStore()),
        table=RowTable(order.epoch(0), range(2), 8),
        address=ADDRESS,
        zones=zones,
        chunk_rows=3,
        engine=FakeEngine(),
    )


def test_the_chunks_of_a_batch_fill_all_rows_of_its_own_zone(zones: tuple[Zone, Zone]) -> None:
    filler = filler_of(zones)
    for chunk in (2, 0, 1):
        filler(1, chunk)
    # Two lanes of 6 and 7 samples; the second batch has their last 2 and 3.
    ids = [4, 5, -1, -1, 10, 11, 12, -1]
    assert zones[1].sample_ids.tolist() == ids
    assert zones[1].valid.tolist() == [i >= 0 for i in ids]
    assert zones[1].labels.tolist() == [i + 100 if i >= 0 else -1 for i in ids]
    assert zones[1].images[:, 0, 0, 0].tolist() == [i + 1 for i in ids]
    assert set(zones[0].slots.tolist()) == {0xFF}


def test_a_chunk_touches_its_own_rows_only(zones: tuple[Zone, Zone]) -> None:
    filler_of(zones)(0, 1)
    assert (zones[0].sample_ids != -1).tolist() == [False] * 3 + [True] * 3 + [False] * 2
    assert zones[0].images[:, 0, 0, 0].tolist() == [255, 255, 255, 4, 7, 8, 255, 255]


def test_a_chunk_of_missing_rows_asks_for_nothing(zones: tuple[Zone, Zone]) -> None:
    store = FakeStore()
    filler_of(zones, samples=1, store=store)(0, 0)
    assert store.asked == []
    assert zones[0].valid.view(np.uint8)[:4].tolist() == [0, 0, 0, 0xFF]
    assert not zones[0].padded[:3].any()


def test_a_row_is_valid_only_once_its_pixels_are_written(zones: tuple[Zone, Zone]) -> None:
    class Watching(FakeEngine):
        def fill(self, samples: Samples, address: Address, zone: Zone, places: Places) -> None:
            assert not zone.valid.any()
            super().fill(samples, address, zone, places)
            raise DecodeError("a damaged one")

    filler = filler_of(zones)
    filler._engine = Watching()
    zones[0].clear_rows(slice(0, 8))
    with pytest.raises(DecodeError, match="a damaged one"):
        filler(0, 0)
    assert not zones[0].valid.any()


def test_time_spent_on_reading_is_booked(zones: tuple[Zone, Zone]) -> None:
    filler = filler_of(zones)
    filler(0, 0)
    assert filler._engine.times.read > 0
