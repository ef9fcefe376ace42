import os
import struct
from pathlib import Path

import pytest

from dtsflow.errors import BlockError, HeaderError, VolumeError
from dtsflow.testing import damage, write_block_volume
from dtsflow.volume.format.file import read_file
from dtsflow.volume.format.header import BLOCK_BYTES

BLOCKS = [[(b"a", 1), (b"bb", 0)], [], [(b"ccc", 4)]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_block_volume(tmp_path / "v.dts", BLOCKS)


def test_it_describes_a_healthy_file(path: Path) -> None:
    file = read_file(path)
    assert file.counts.tolist() == [2, 0, 1]
    assert file.num_samples == 3
    assert file.largest_label == 4
    assert file.size == 4 * BLOCK_BYTES


def test_many_blocks_are_scanned_in_order(tmp_path: Path) -> None:
    path = write_block_volume(tmp_path / "v.dts", [[(b"x", 0)] * (i % 3) for i in range(150)])
    assert read_file(path).counts.tolist() == [i % 3 for i in range(150)]


@pytest.mark.parametrize("keep", [4 * BLOCK_BYTES - 1, 3 * BLOCK_BYTES, BLOCK_BYTES, 144])
def test_a_truncated_file_is_named_with_both_sizes(path: Path, keep: int) -> None:
    os.truncate(path, keep)
    with pytest.raises(HeaderError, match=rf"v\.dts is truncated: it has {keep} .* 67108864"):
        read_file(path)


@pytest.mark.parametrize("keep", [0, 3, 143])
def test_a_file_cut_inside_its_header_is_named(path: Path, keep: int) -> None:
    os.truncate(path, keep)
    with pytest.raises(HeaderError, match=f"v.dts has {keep} bytes"):
        read_file(path)


def test_a_file_with_more_than_its_blocks_is_damage(path: Path) -> None:
    os.truncate(path, 4 * BLOCK_BYTES + 1)
    with pytest.raises(HeaderError, match=r"damaged: it has 67108865 bytes.*67108864"):
        read_file(path)


def test_blocks_that_were_swapped_are_named(path: Path) -> None:
    raw = path.read_bytes()
    first, third = raw[BLOCK_BYTES : 2 * BLOCK_BYTES], raw[3 * BLOCK_BYTES :]
    damage(path, BLOCK_BYTES, third)
    damage(path, 3 * BLOCK_BYTES, first)
    with pytest.raises(BlockError, match=r"block 0 of .* says it is block 2"):
        read_file(path)


def test_a_damaged_block_is_named(path: Path) -> None:
    damage(path, 3 * BLOCK_BYTES, bytes(4096))
    with pytest.raises(BlockError, match=r"block 2 of .*v\.dts starts with"):
        read_file(path)


def test_a_number_of_samples_that_the_blocks_do_not_hold_is_damage(path: Path) -> None:
    damage(path, 52, struct.pack("<I", 4))
    with pytest.raises(HeaderError, match="counts 4 samples, its 3 blocks hold 3"):
        read_file(path)


def test_a_label_beyond_the_classes_is_damage(path: Path) -> None:
    damage(path, 28, struct.pack("<I", 4))
    with pytest.raises(HeaderError, match="counts 4 classes, a sample has label 4"):
        read_file(path)


@pytest.mark.parametrize("is_training", [False, True])
def test_an_export_that_stopped_is_named(tmp_path: Path, is_training: bool) -> None:  # noqa: FBT001
    path = write_block_volume(tmp_path / "v.dts", BLOCKS, is_training=is_training)
    damage(path, 0, b".DTS\3\0\0\0".ljust(256, b"\0"))
    with pytest.raises(HeaderError, match="interrupted export"):
        read_file(path)


def test_a_folder_is_no_volume(tmp_path: Path) -> None:
    with pytest.raises(VolumeError, match=str(tmp_path.name)):
        read_file(tmp_path)


def test_nothing_stays_open(path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 0
    read_file(path)
    after = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 0
    assert before == after
