from pathlib import Path
from typing import cast

import numpy as np
import pytest

from dtsflow.arena.arena import Form
from dtsflow.arena.host import Host
from dtsflow.errors import DecodeError
from dtsflow.memory.plan import MemoryPlan
from dtsflow.reader.order import Order, Rows, Shuffle
from dtsflow.reader.rows import RowTable
from dtsflow.reader.store import Samples, Store
from dtsflow.spec import ImageSpec
from dtsflow.station.bad_samples import RowWriter, Substitutes
from dtsflow.station.engine import Address, Bad, Places, StageTimes
from dtsflow.station.filler import Filler
from dtsflow.station.zone import Zone
from dtsflow.tensor.dtype import DType
from dtsflow.testing import write_small_set
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.header import Kind

ADDRESS = Address(seed=1, epoch=0, phase=0)


class FakeStore:
    """Has samples without bytes; label is id + 100."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.released: list[list[int]] = []

    def gather(self, rows: Rows) -> Samples:
        assert rows.valid.all()
        self.asked.append(rows.ids.tolist())
        nothing = np.zeros(len(rows), np.int64)
        labels = (rows.ids + 100).astype(np.int32)
        return Samples(np.empty(0, np.uint8), nothing, nothing, labels, rows.ids)

    def release(self, rows: Rows) -> None:
        self.released.append(rows.ids.tolist())


class FakeEngine:
    """Writes a sample's id + 1 into each of its pixels."""

    def __init__(self) -> None:
        self.times = StageTimes()

    def fill(self, samples: Samples, address: Address, zone: Zone, places: Places) -> Bad:
        assert address is ADDRESS
        zone.padded[places] = (samples.ids + 1).astype(np.uint8)[:, None, None, None]
        return {}

    def probe(self, samples: Samples) -> Bad:
        raise NotImplementedError(f"{samples} are all good")


@pytest.fixture
def volumes(tmp_path: Path) -> VolumeSet:
    return scan(write_small_set(tmp_path / "mnist_test.dts", Kind.MNIST, 13))


@pytest.fixture
def zones() -> tuple[Zone, Zone]:
    form = Form(8, ImageSpec(2, 2, 3), 3)
    plan = MemoryPlan().input_buffers(batch=8, image=form.image, dtype=DType.UINT8)
    made = Host().open(plan.finalize(), {"train": form}).zones["train"]
    for zone in made:
        zone.poison()
    return made


def filler_of(
    zones: tuple[Zone, Zone],
    volumes: VolumeSet,
    samples: int = 13,
    store: FakeStore | None = None,
) -> Filler:
    order = Order(np.array([samples], np.int64), 8, 2, seed=0, shuffle=Shuffle.NONE)
    return Filler(
        store=cast("Store", store or FakeStore()),
        table=RowTable(order.epoch(0), range(2), 8),
        zones=zones,
        chunk_rows=3,
        bad_samples=RowWriter("raise", volumes, Substitutes(volumes), ADDRESS, stop=lambda: False),
        engine=FakeEngine(),
    )


def test_the_chunks_of_a_batch_fill_all_rows_of_its_own_zone(
    zones: tuple[Zone, Zone], volumes: VolumeSet
) -> None:
    filler = filler_of(zones, volumes)
    for chunk in (2, 0, 1):
        filler(1, chunk)
    # Two lanes of 6 and 7 samples; the second batch has their last 2 and 3.
    ids = [4, 5, -1, -1, 10, 11, 12, -1]
    assert zones[1].sample_ids.tolist() == ids
    assert zones[1].valid.tolist() == [i >= 0 for i in ids]
    assert zones[1].labels.tolist() == [i + 100 if i >= 0 else -1 for i in ids]
    assert zones[1].images[:, 0, 0, 0].tolist() == [i + 1 for i in ids]
    assert set(zones[0].slots.tolist()) == {0xFF}


def test_a_chunk_touches_its_own_rows_only(zones: tuple[Zone, Zone], volumes: VolumeSet) -> None:
    filler_of(zones, volumes)(0, 1)
    assert (zones[0].sample_ids != -1).tolist() == [False] * 3 + [True] * 3 + [False] * 2
    assert zones[0].images[:, 0, 0, 0].tolist() == [255, 255, 255, 4, 7, 8, 255, 255]


def test_a_chunk_of_missing_rows_asks_for_nothing(
    zones: tuple[Zone, Zone], volumes: VolumeSet
) -> None:
    store = FakeStore()
    filler_of(zones, volumes, samples=1, store=store)(0, 0)
    assert store.asked == []
    assert zones[0].valid.view(np.uint8)[:4].tolist() == [0, 0, 0, 0xFF]
    assert not zones[0].padded[:3].any()


def test_a_row_is_valid_only_once_its_pixels_are_written(
    zones: tuple[Zone, Zone], volumes: VolumeSet
) -> None:
    class Watching(FakeEngine):
        def fill(self, samples: Samples, address: Address, zone: Zone, places: Places) -> Bad:
            assert not zone.valid.any()
            super().fill(samples, address, zone, places)
            raise DecodeError("a damaged one")

    filler = filler_of(zones, volumes)
    filler._engine = Watching()
    zones[0].clear_rows(slice(0, 8))
    with pytest.raises(DecodeError, match="a damaged one"):
        filler(0, 0)
    assert not zones[0].valid.any()


def test_time_spent_on_reading_is_booked(zones: tuple[Zone, Zone], volumes: VolumeSet) -> None:
    filler = filler_of(zones, volumes)
    filler(0, 0)
    assert filler._engine.times.read > 0


def test_rows_are_released_once_they_are_written(
    zones: tuple[Zone, Zone], volumes: VolumeSet
) -> None:
    store = FakeStore()
    filler_of(zones, volumes, samples=12, store=store)(1, 1)
    assert store.asked == store.released == [[10, 11]]
