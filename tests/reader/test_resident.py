import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtsflow.errors import ClosedError, VolumeError
from dtsflow.memory.align import PAGE
from dtsflow.reader import block_io
from dtsflow.reader.block_io import Verify
from dtsflow.reader.order import Rows
from dtsflow.reader.resident import BlockTable, Layout, ResidentStore, node_share, resident_bytes
from dtsflow.testing import damage, jpeg, write_block_set, write_block_volume, write_small_set
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format import io
from dtsflow.volume.format.header import BLOCK_BYTES, Kind
from dtsflow.volume.format.io import read_into

IMAGES = [(jpeg(20 + i, 30, seed=i), i % 4) for i in range(9)]


@pytest.fixture
def volumes(tmp_path: Path) -> VolumeSet:
    """9 images in blocks of 4, 0, 3 and 2."""
    blocks = [IMAGES[:4], [], IMAGES[4:7], IMAGES[7:]]
    return scan(write_block_volume(tmp_path / "x.dts", blocks))


def store_of(
    volumes: VolumeSet,
    delivery: tuple[int, ...],
    io_threads: int,
    verify: Verify = Verify.BLOCK,
) -> ResidentStore:
    needed = volumes.counts > 0
    table = BlockTable(volumes, verify, Layout.of(volumes, needed))
    blocks = node_share(needed, [np.array(delivery, np.int64)], 0)
    return ResidentStore(table, blocks, io_threads, verify, 0)


@contextmanager
def opened(
    volumes: VolumeSet, delivery: tuple[int, ...] = (), io_threads: int = 2
) -> Iterator[ResidentStore]:
    store = store_of(volumes, delivery, io_threads)
    try:
        yield store
    finally:
        store.close()


def rows_of(volumes: VolumeSet, *ids: int) -> Rows:
    found = [volumes.block_of(sample_id) for sample_id in ids]
    blocks, places = np.array(found, np.int64).reshape(-1, 2).T
    numbers = np.arange(len(ids))
    valid = np.ones(len(ids), np.bool_)
    return Rows(np.array(ids, np.int64), blocks, places, valid, np.zeros_like(numbers), numbers)


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("dtsflow")]


def test_samples_are_the_stored_bytes_whatever_order_they_are_asked_in(volumes: VolumeSet) -> None:
    ids = (8, 0, 5, 3, 3, 7, 1)
    with opened(volumes) as store:
        samples = store.gather(rows_of(volumes, *ids))
        assert [bytes(samples.data(i)) for i in range(len(ids))] == [IMAGES[i][0] for i in ids]
        assert samples.labels.tolist() == [IMAGES[i][1] for i in ids]
        assert samples.ids.tolist() == list(ids)


def test_pixels_of_a_small_set_are_samples_too(tmp_path: Path) -> None:
    path = write_small_set(tmp_path / "mnist_train.dts", Kind.MNIST, 11)
    volumes = scan(path)
    raw = path.read_bytes()[-11 * 784 :]
    with opened(volumes, io_threads=8) as store:
        samples = store.gather(rows_of(volumes, 10, 2))
        assert bytes(samples.data(0)) == raw[10 * 784 :]
        assert bytes(samples.data(1)) == raw[2 * 784 : 3 * 784]


def test_blocks_are_read_once_each_first_as_delivered_then_the_rest(
    volumes: VolumeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def recording(descriptor: int, memory: Any, offset: int, path: Path, **stop: Any) -> bool:
        read.append(offset // BLOCK_BYTES - 1)
        return read_into(descriptor, memory, offset, path, **stop)

    monkeypatch.setattr(block_io, "read_into", recording)
    with opened(volumes, (2,), io_threads=1) as store:
        for _ in range(2):
            store.gather(rows_of(volumes, *range(9)))
        assert read == [2, 0, 3]
        assert store.progress() == "0 of 3 blocks are not read yet"


def test_samples_of_a_damaged_block_are_refused_and_the_others_come(volumes: VolumeSet) -> None:
    damage(volumes.files[0].path, 3 * BLOCK_BYTES + 4, b"\xff")  # block 2
    with opened(volumes, (2, 0, 3), io_threads=1) as store:
        for _ in range(2):
            samples = store.gather(rows_of(volumes, 0, 4, 8))
            assert samples.refused.keys() == {1}
            assert "block 2" in samples.refused[1]
            assert [bytes(samples.data(i)) for i in (0, 2)] == [IMAGES[0][0], IMAGES[8][0]]
            assert (samples.sizes[1], samples.labels[1]) == (0, -1)


@pytest.mark.parametrize("verify", list(Verify))
def test_a_flipped_bit_shows_unless_nothing_is_verified(
    tmp_path: Path, write_indexed: Callable[..., Path], verify: Verify
) -> None:
    path = write_indexed(tmp_path / "x.dts", [IMAGES[:4], IMAGES[4:]])
    damage(path, BLOCK_BYTES + 5000, b"\x55")
    store = store_of(scan(path), (0,), 1, verify)
    try:
        refused = store.gather(rows_of(scan(path), 0, 8)).refused
    finally:
        store.close()
    if verify is Verify.NONE:
        assert not refused
    else:
        assert "block 0 of" in refused[0]
        assert refused.keys() == {0}


def test_each_caller_gets_an_error_of_its_own_with_the_cause(volumes: VolumeSet) -> None:
    volumes.files[0].path.unlink()
    caught = []
    with opened(volumes) as store:
        for _ in range(2):
            with pytest.raises(VolumeError) as error:
                store.gather(rows_of(volumes, 0))
            caught.append(error.value)
    assert caught[0] is not caught[1]
    assert caught[0].__cause__ is caught[1].__cause__ is not None


def test_a_volume_that_went_away_is_named_and_the_others_arrive(tmp_path: Path) -> None:
    paths = write_block_set(tmp_path, "set", [[[image]] for image in IMAGES[:3]])
    volumes = scan(str(tmp_path / "set-*.dts"))
    paths[1].unlink()
    with opened(volumes, (1, 0, 2), io_threads=1) as store:
        with pytest.raises(VolumeError, match=r"set-00002-of-00003\.dts cannot be opened"):
            store.gather(rows_of(volumes, 1))
        samples = store.gather(rows_of(volumes, 0, 2))
        assert [bytes(samples.data(i)) for i in (0, 1)] == [IMAGES[0][0], IMAGES[2][0]]


def test_a_waiting_worker_is_woken_by_close(
    volumes: VolumeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, gate = threading.Event(), threading.Event()

    def stuck(*_arguments: Any, **_stop: Any) -> bool:
        reading.set()
        gate.wait(20)
        return False

    monkeypatch.setattr(block_io, "read_into", stuck)
    ended: list[Exception] = []
    with opened(volumes) as store:

        def ask() -> None:
            try:
                store.gather(rows_of(volumes, 0))
            except ClosedError as error:
                ended.append(error)

        waiting = threading.Thread(target=ask)
        waiting.start()
        assert reading.wait(10)
        closing = threading.Thread(target=store.close)
        closing.start()
        waiting.join(5)
        gate.set()
        closing.join(5)
    assert "closed while a worker waited" in str(ended[0])
    assert not threads()


def test_a_read_in_progress_stops_between_two_pieces(
    volumes: VolumeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, gate = threading.Event(), threading.Event()
    pieces: list[int] = []

    def slow(_descriptor: int, piece: Any, offset: int) -> int:
        pieces.append(offset)
        reading.set()
        gate.wait(20)
        return len(piece)

    monkeypatch.setattr(io, "_read_piece", slow)
    with opened(volumes, io_threads=1) as store:
        assert reading.wait(10)
        closing = threading.Thread(target=store.close)
        closing.start()
        with store._shared.arrived:
            assert store._shared.arrived.wait_for(lambda: store._shared.closed, 5)
        gate.set()
        closing.join(5)
        assert not closing.is_alive()
    assert pieces == [BLOCK_BYTES]
    assert not threads()


def test_a_disk_that_hangs_keeps_nobody_and_is_told_of(
    volumes: VolumeSet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gate = threading.Event()
    monkeypatch.setattr("dtsflow.reader.store.LET_GO_S", 0.05)
    monkeypatch.setattr(block_io, "read_into", lambda *_a, **_k: not gate.wait(20))
    with caplog.at_level(logging.WARNING), opened(volumes, io_threads=3) as store:
        pass
    assert "3 IO threads are still waiting for the disk" in caplog.text
    gate.set()
    for thread in store.threads:
        thread.join(5)
    assert not threads()


def test_there_are_no_more_threads_than_blocks(volumes: VolumeSet) -> None:
    with opened(volumes, io_threads=64) as store:
        assert len(store.threads) == 3
    assert not threads()


def test_the_plan_counts_whole_blocks_and_an_index_entry_per_sample(
    volumes: VolumeSet, tmp_path: Path
) -> None:
    assert resident_bytes(volumes) == 3 * BLOCK_BYTES + 9 * (8 + 8 + 4)
    small = scan(write_small_set(tmp_path / "mnist_test.dts", Kind.MNIST, 11))
    pages = -(-11 * 785 // PAGE)
    assert resident_bytes(small) == pages * PAGE + 11 * 20
    with opened(small) as store:
        assert store._shared.table.memory.nbytes == pages * PAGE


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux lists descriptors")
def test_hundreds_of_volumes_take_one_descriptor_for_each_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_block_set(tmp_path, "set", [[[IMAGES[0]]]] * 300)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # a path each would cost more
    volumes = scan(str(tmp_path / "set-*.dts"))
    most: list[int] = []

    def beginning(descriptor: int, memory: Any, offset: int, path: Path, **stop: Any) -> bool:
        most.append(len(os.listdir("/proc/self/fd")))  # noqa: PTH208
        # A block's index and first sample: 300 whole blocks are 5 GB.
        return read_into(descriptor, memory[: 1 << 17], offset, path, **stop)

    monkeypatch.setattr(block_io, "read_into", beginning)
    with opened(volumes, io_threads=4) as store:
        samples = store.gather(rows_of(volumes, *range(300)))
        assert bytes(samples.data(299)) == IMAGES[0][0]
    assert len(most) == 300
    assert max(most) <= before + 4 + 4  # each thread's listing is one more
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
