"""Several stores over one memory, as the ranks of a node have it."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtsflow.errors import ClosedError, VolumeError
from dtsflow.memory.align import aligned_bytes
from dtsflow.reader import block_io
from dtsflow.reader.block_io import Verify
from dtsflow.reader.order import Rows
from dtsflow.reader.resident import NOTE_BYTES, BlockTable, Layout, ResidentStore, resident_bytes
from dtsflow.testing import damage, jpeg, write_block_volume
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.header import BLOCK_BYTES
from dtsflow.volume.format.io import read_into

IMAGES = [(jpeg(20 + i, 30, seed=i), i % 4) for i in range(9)]
PARTS = ([0], [2, 3])  # of blocks 0, 2 and 3, which have samples


@pytest.fixture
def volumes(tmp_path: Path) -> VolumeSet:
    """9 images in blocks of 4, 0, 3 and 2."""
    blocks = [IMAGES[:4], [], IMAGES[4:7], IMAGES[7:]]
    return scan(write_block_volume(tmp_path / "x.dts", blocks))


@contextmanager
def pair(
    volumes: VolumeSet, parts: tuple[list[int], ...] = PARTS
) -> Iterator[tuple[ResidentStore, ...]]:
    """A store for each part, all in one memory."""
    layout = Layout.of(volumes, volumes.counts > 0, len(parts))
    memory = aligned_bytes(layout.total_bytes)
    with ExitStack() as stack:
        stores = []
        for process, part in enumerate(parts):
            table = BlockTable(volumes, Verify.BLOCK, layout, memory, process)
            stores.append(ResidentStore(table, part, 1, Verify.BLOCK, 0))
            stack.callback(stores[-1].close)
        yield tuple(stores)


def rows_of(volumes: VolumeSet, *ids: int) -> Rows:
    found = [volumes.block_of(sample_id) for sample_id in ids]
    blocks, places = np.array(found, np.int64).reshape(-1, 2).T
    numbers = np.arange(len(ids))
    valid = np.ones(len(ids), np.bool_)
    return Rows(np.array(ids, np.int64), blocks, places, valid, np.zeros_like(numbers), numbers)


def test_each_process_has_the_samples_that_the_others_read(
    volumes: VolumeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def recording(descriptor: int, memory: Any, offset: int, path: Path, **stop: Any) -> bool:
        read.append(offset // BLOCK_BYTES - 1)
        return read_into(descriptor, memory, offset, path, **stop)

    monkeypatch.setattr(block_io, "read_into", recording)
    ids = (8, 0, 5, 3, 7, 1)
    with pair(volumes) as stores:
        for store in stores:
            samples = store.gather(rows_of(volumes, *ids))
            assert [bytes(samples.data(i)) for i in range(6)] == [IMAGES[i][0] for i in ids]
            assert samples.labels.tolist() == [IMAGES[i][1] for i in ids]
            assert store.progress() == "0 of 3 blocks are not read yet"
    assert sorted(read) == [0, 2, 3]


def test_a_worker_waits_for_what_another_process_has_not_read_yet(
    volumes: VolumeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, asked = threading.Event(), threading.Event()

    def held(descriptor: int, memory: Any, offset: int, path: Path, **stop: Any) -> bool:
        if offset // BLOCK_BYTES - 1 == 3:
            asked.set()
            gate.wait(20)
        return read_into(descriptor, memory, offset, path, **stop)

    monkeypatch.setattr(block_io, "read_into", held)
    with pair(volumes) as (first, _second):
        first.gather(rows_of(volumes, 0, 4))
        assert asked.wait(10)
        assert first.progress() == "1 of 3 blocks are not read yet"
        found: list[bytes] = []

        def ask() -> None:
            samples = first.gather(rows_of(volumes, 8))
            found.append(bytes(samples.data(0)))

        waiting = threading.Thread(target=ask)
        waiting.start()
        gate.set()
        waiting.join(10)
        assert found == [IMAGES[8][0]]


def test_damage_that_another_process_found_has_the_same_words(volumes: VolumeSet) -> None:
    damage(volumes.files[0].path, 3 * BLOCK_BYTES + 4, b"\xff")  # block 2
    with pair(volumes) as stores:
        found = [store.gather(rows_of(volumes, 0, 4, 8)) for store in stores]
    assert found[0].refused == found[1].refused
    assert found[0].refused.keys() == {1}
    assert "block 2" in found[0].refused[1]
    assert [(one.sizes[1], one.labels[1]) for one in found] == [(0, -1)] * 2


def test_what_another_process_could_not_read_is_told_with_its_reason(volumes: VolumeSet) -> None:
    path = volumes.files[0].path
    with pair(volumes, ([], [0, 2])) as (first, _second):
        first.gather(rows_of(volumes, 0, 4))
    path.unlink()
    with pair(volumes) as (first, second):
        for store, said in ((second, r"^\S*x\.dts cannot be opened"), (first, "Another rank")):
            with pytest.raises(VolumeError, match=said):
                store.gather(rows_of(volumes, 8))
        with pytest.raises(VolumeError, match=r"could not read block 2: \S*x\.dts cannot be op"):
            first.gather(rows_of(volumes, 4))


def test_a_waiter_for_another_process_is_woken_by_close(volumes: VolumeSet) -> None:
    ended: list[Exception] = []
    with pair(volumes, ([0], [])) as (first, _second):

        def ask() -> None:
            try:
                first.gather(rows_of(volumes, 8))  # of a block that nobody reads
            except ClosedError as error:
                ended.append(error)

        waiting = threading.Thread(target=ask)
        waiting.start()
        first.close()
        waiting.join(10)
    assert len(ended) == 1


def test_a_long_reason_is_cut_not_spilled(volumes: VolumeSet) -> None:
    layout = Layout.of(volumes, volumes.counts > 0, 2)
    memory = aligned_bytes(layout.total_bytes)
    one, other = (BlockTable(volumes, Verify.BLOCK, layout, memory, i) for i in range(2))
    one.fail(0, VolumeError("é" * NOTE_BYTES))
    one.settle(0, 3)
    assert not other.states[1:].any()
    with pytest.raises(VolumeError, match="could not read block 0: éé"):
        other.have_come(np.array([0]))


def test_what_sharing_takes_beside_blocks_and_index_is_small(volumes: VolumeSet) -> None:
    needed = volumes.counts > 0
    layout = Layout.of(volumes, needed, 8)
    assert layout.planned_bytes == resident_bytes(volumes, needed)
    assert layout.total_bytes - layout.planned_bytes == 8 * NOTE_BYTES + len(needed)
