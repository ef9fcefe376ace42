from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtsflow.reader.order import Order, Shuffle, Tail
from dtsflow.reader.rows import RowTable, Selection
from dtsflow.testing import write_block_volume
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.datasets.volume_set import VolumeSet

COUNTS = [3, 0, 2, 1, 4]


@pytest.fixture
def volumes(tmp_path: Path) -> VolumeSet:
    blocks = [[(b"x", 0)] * count for count in COUNTS]
    return scan(write_block_volume(tmp_path / "x.dts", blocks))


class FakeVolumes:
    """All that a selection asks of a data set."""

    def __init__(self, counts: list[int]) -> None:
        self.counts = np.array(counts, np.int64)
        self.first_ids = np.cumsum(self.counts) - self.counts

    def block_of(self, sample_id: int) -> tuple[int, int]:
        block = int(np.searchsorted(self.first_ids, sample_id, side="right")) - 1
        return block, sample_id - int(self.first_ids[block])


def selection_of(volumes: Any, *ids: int) -> Selection:
    return Selection.of(volumes, np.array(ids, np.int64))


def test_a_selection_counts_and_places_its_samples_by_block(volumes: VolumeSet) -> None:
    selection = selection_of(volumes, 0, 2, 4, 6, 9)
    assert len(selection) == 5
    assert selection.counts.tolist() == [2, 0, 1, 0, 2]
    places = [selection.places(block).tolist() for block in range(5)]
    assert places == [[0, 2], [], [1], [], [0, 3]]


def test_its_digest_is_of_the_ids_alone(volumes: VolumeSet) -> None:
    assert selection_of(volumes, 0, 2).digest() == selection_of(volumes, 0, 2).digest()
    assert selection_of(volumes, 0, 2).digest() != selection_of(volumes, 0, 3).digest()


@st.composite
def selections(draw: st.DrawFn) -> tuple[FakeVolumes, list[int]]:
    counts = draw(st.lists(st.integers(0, 6), min_size=1, max_size=8).filter(any))
    ids = st.lists(st.integers(0, sum(counts) - 1), min_size=1, unique=True)
    return FakeVolumes(counts), sorted(draw(ids))


@settings(max_examples=60)
@given(
    selections(),
    st.sampled_from(list(Shuffle)),
    st.sampled_from([Tail.PAD, Tail.WRAP]),
    st.sampled_from([(1, 1), (4, 2), (6, 3)]),
    st.integers(1, 4),
)
def test_rows_have_the_ids_and_places_of_the_data_set_each_once(
    chosen: tuple[FakeVolumes, list[int]],
    shuffle: Shuffle,
    tail: Tail,
    batch: tuple[int, int],
    window: int,
) -> None:
    volumes, ids = chosen
    selection = selection_of(volumes, *ids)
    order = Order(selection.counts, *batch, seed=3, shuffle=shuffle, tail=tail, window=window)
    numbered = order.epoch(1).rows(0, order.steps, range(order.lanes))
    rows = selection.located(numbered)
    assert rows.valid.tolist() == numbered.valid.tolist()
    assert rows.ids[~rows.valid].tolist() == [-1] * int((~rows.valid).sum())
    assert not rows.places[~rows.valid].any()
    for row in np.flatnonzero(rows.valid).tolist():
        place = (int(rows.blocks[row]), int(rows.places[row]))
        assert volumes.block_of(int(rows.ids[row])) == place
        assert int(rows.places[row]) in selection.places(place[0])
    delivered = rows.ids[rows.valid].tolist()
    assert sorted(delivered) == ids if tail is Tail.PAD else set(delivered) == set(ids)


@given(selections())
def test_a_selection_of_all_changes_no_row(chosen: tuple[FakeVolumes, list[int]]) -> None:
    volumes, _ = chosen
    every = selection_of(volumes, *range(int(volumes.counts.sum())))
    assert every.counts.tolist() == volumes.counts.tolist()
    rows = Order(volumes.counts, 4, 2, seed=1).epoch(0).rows(0, 1, range(2))
    assert every.located(rows).ids.tolist() == rows.ids.tolist()
    assert every.located(rows).places.tolist() == rows.places.tolist()


def test_a_table_of_rows_locates_every_page(volumes: VolumeSet) -> None:
    selection = selection_of(volumes, 1, 4, 5, 7, 8)
    order = Order(selection.counts, 2, 1, seed=3)
    whole = selection.located(order.epoch(0).rows(0, order.steps, range(1)))
    table = RowTable(order.epoch(0), range(1), 2, selection)
    table._page_steps = 1
    for step in range(order.steps):
        assert table.rows(step).ids.tolist() == whole.ids[2 * step : 2 * step + 2].tolist()
