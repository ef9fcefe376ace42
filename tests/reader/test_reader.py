import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from dtsflow.errors import BlockError, PlanError
from dtsflow.reader.block_io import Verify
from dtsflow.reader.order import Order, Shuffle
from dtsflow.reader.reader import Reader
from dtsflow.reader.resident import ResidentStore, resident_bytes
from dtsflow.reader.streaming import StreamingStore, streaming_bytes
from dtsflow.testing import damage, jpeg, write_block_volume, write_small_set
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.header import BLOCK_BYTES, Kind

BLOCKS = [[(jpeg(seed=4 * b + i), i) for i in range(4)] for b in range(3)]


@pytest.fixture
def volumes(tmp_path: Path) -> VolumeSet:
    return scan(write_block_volume(tmp_path / "x.dts", BLOCKS))


def order_of(volumes: VolumeSet, shuffle: Shuffle = Shuffle.BLOCKS) -> Order:
    return Order(volumes.counts, 4, 2, seed=1, shuffle=shuffle, window=2)


def test_auto_keeps_all_in_memory_where_it_fits_and_says_why(tmp_path: Path) -> None:
    volumes = scan(write_block_volume(tmp_path / "x.dts", [[(b"x", 0)]] * 9))
    order = Order(volumes.counts, 4, 1, seed=1, window=2)
    needed = resident_bytes(volumes)
    assert needed > streaming_bytes(order, range(1))
    for room, mode, why in (
        (2 * needed, "resident", "fit 75%"),
        (needed, "streaming", "do not fit 75%"),
        (0, "streaming", "do not fit"),
    ):
        chosen, reason = Reader().choose(volumes, order, range(1), room)
        assert chosen == mode
        assert why in reason


def test_auto_streams_nothing_whose_windows_take_more_than_all(volumes: VolumeSet) -> None:
    mode, reason = Reader().choose(volumes, order_of(volumes), range(2), 0)
    assert mode == "resident"
    assert "windows take 134,217,728" in reason


def test_what_was_asked_for_is_done(volumes: VolumeSet) -> None:
    order = order_of(volumes)
    assert Reader(mode="resident").choose(volumes, order, range(2), 0) == ("resident", "")
    assert Reader(mode="streaming").choose(volumes, order, range(2), 1 << 60) == ("streaming", "")


def test_what_cannot_stream_is_resident_or_refused(tmp_path: Path, volumes: VolumeSet) -> None:
    pixels = scan(write_small_set(tmp_path / "mnist_test.dts", Kind.MNIST, 9))
    full = order_of(volumes, Shuffle.FULL)
    for what, order, why in (
        (pixels, order_of(pixels, Shuffle.FULL), "pixels"),
        (volumes, full, "shuffle=full"),
    ):
        mode, reason = Reader().choose(what, order, range(2), 0)
        assert mode == "resident"
        assert why in reason
        with pytest.raises(PlanError, match=f"mode=streaming: .*{why}"):
            Reader(mode="streaming").choose(what, order, range(2), 1 << 60)


def test_each_mode_opens_its_store_and_plans_its_bytes(volumes: VolumeSet) -> None:
    order, reader = order_of(volumes), Reader()
    for mode, store_type, planned in (
        ("resident", ResidentStore, resident_bytes(volumes)),
        ("streaming", StreamingStore, streaming_bytes(order, range(2))),
    ):
        assert reader.planned_bytes(mode, volumes, order, range(2)) == planned  # type: ignore[arg-type]  # both are modes
        store = reader.open(mode, volumes, order, range(2))  # type: ignore[arg-type]  # both are modes
        store.close()
        assert isinstance(store, store_type)


def test_a_whole_file_is_checked_before_its_first_block(volumes: VolumeSet) -> None:
    damage(volumes.files[0].path, 2 * BLOCK_BYTES + 6000, b"\x01")
    order = order_of(volumes)
    with pytest.raises(BlockError, match=r"x\.dts is damaged: its blocks have the CRC-32"):
        Reader(verify=Verify.FILE).open("resident", volumes, order, range(2))
    Reader().open("resident", volumes, order, range(2)).close()


def test_the_checksums_of_an_index_stand_for_the_file(
    tmp_path: Path, write_indexed: Callable[..., Path]
) -> None:
    volumes = scan(write_indexed(tmp_path / "x.dts", BLOCKS))
    damage(volumes.files[0].path, 2 * BLOCK_BYTES + 6000, b"\x01")
    store = Reader(verify=Verify.FILE).open("resident", volumes, order_of(volumes), range(2))
    rows = order_of(volumes).epoch(0).rows(0, 3, range(2))
    refused = store.gather(rows).refused
    store.close()
    assert len(refused) == 4


def test_without_checksums_it_is_said_once(
    volumes: VolumeSet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    Reader().open("resident", volumes, order_of(volumes), range(2)).close()
    assert caplog.text.count("only the structure is verified") == 1
