import os
from pathlib import Path
from typing import Any

import pytest

from dtsflow.errors import BlockError, ClosedError, VolumeError
from dtsflow.reader import random_access
from dtsflow.reader.random_access import KEPT_INDEXES, SingleSamples, read_block
from dtsflow.testing import damage, write_block_set, write_block_volume, write_small_set
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.header import BLOCK_BYTES, Kind

BLOCKS = [[(b"first", 1), (b"second one", 2)], [], [(b"third", 0)]]


@pytest.fixture
def volumes(tmp_path: Path) -> VolumeSet:
    return scan(write_block_volume(tmp_path / "x.dts", BLOCKS))


def test_a_block_is_read_whole_with_its_index(volumes: VolumeSet) -> None:
    memory, index = read_block(volumes, 2)
    assert len(memory) == BLOCK_BYTES
    start, size = int(index.offsets[0]), int(index.sizes[0])
    assert bytes(memory[start : start + size]) == b"third"


def test_a_block_with_another_checksum_is_damaged(tmp_path: Path, write_indexed: Any) -> None:
    path = write_indexed(tmp_path / "x.dts", BLOCKS)
    damage(path, 2 * BLOCK_BYTES - 1, b"\x01")
    volumes = scan(path)
    with pytest.raises(BlockError, match=r"block 0 of .* CRC-32"):
        read_block(volumes, 0)
    read_block(volumes, 2)


def test_reading_a_block_ends_when_it_is_told(volumes: VolumeSet) -> None:
    with pytest.raises(ClosedError):
        read_block(volumes, 0, stop=lambda: True)


def test_single_samples_are_the_stored_bytes(volumes: VolumeSet) -> None:
    singles = SingleSamples(volumes)
    for block, place, sample_id in ((2, 0, 2), (0, 1, 1), (0, 0, 0)):
        sample = singles.read(block, place)
        data, label = BLOCKS[block][place]
        assert bytes(sample.data(0)) == data
        assert sample.labels.tolist() == [label]
        assert sample.ids.tolist() == [sample_id]
        assert len(sample) == 1


def test_samples_of_any_volume_of_a_set_are_found(tmp_path: Path) -> None:
    write_block_set(tmp_path, "set", [[[(b"a", 0)]], [[(b"b", 1)], [(b"c", 2)]]])
    singles = SingleSamples(scan(str(tmp_path / "set-*.dts")))
    assert [bytes(singles.read(block, 0).data(0)) for block in range(3)] == [b"a", b"b", b"c"]


def test_stored_pixels_are_samples_too(tmp_path: Path) -> None:
    path = write_small_set(tmp_path / "mnist_test.dts", Kind.MNIST, 5)
    sample = SingleSamples(scan(path)).read(0, 4)
    assert bytes(sample.data(0)) == path.read_bytes()[-784:]


def test_a_block_is_checked_once_and_a_trusted_one_never(
    volumes: VolumeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[int] = []
    whole = random_access.read_block

    def reading(volumes: VolumeSet, block: int, **stop: Any) -> Any:
        checked.append(block)
        return whole(volumes, block, **stop)

    monkeypatch.setattr(random_access, "read_block", reading)
    singles = SingleSamples(volumes)
    singles.trust(0)
    for _ in range(2):
        singles.read(0, 0)
        singles.read(2, 0)
    assert checked == [2]


def test_few_indexes_are_kept_and_no_block_is_checked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = KEPT_INDEXES + 4
    blocks = [[(b"%d" % i, 0)] for i in range(number)]
    volumes = scan(write_block_volume(tmp_path / "x.dts", blocks))
    checked: list[int] = []

    def checking(volumes: VolumeSet, block: int, **_stop: Any) -> Any:
        checked.append(block)
        return None, volumes.index(block, whole[block])

    whole = [read_block(volumes, block)[0] for block in range(number)]
    monkeypatch.setattr(random_access, "read_block", checking)
    singles = SingleSamples(volumes)
    for _ in range(2):
        for block in range(number):
            assert bytes(singles.read(block, 0).data(0)) == b"%d" % block
            assert len(singles._indexes) <= KEPT_INDEXES
    assert checked == list(range(number))


def test_a_file_that_went_away_is_named(volumes: VolumeSet) -> None:
    singles = SingleSamples(volumes)
    volumes.files[0].path.unlink()
    with pytest.raises(VolumeError, match=r"x\.dts cannot be opened"):
        singles.read(0, 0)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors are counted there")
def test_no_file_stays_open(volumes: VolumeSet) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # the entries vanish meanwhile
    singles = SingleSamples(volumes)
    singles.read(0, 0)
    singles.read(2, 0)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
