from pathlib import Path

import numpy as np
import pytest

from dtsflow.errors import BlockError
from dtsflow.testing import damage, write_block_set, write_small_set
from dtsflow.volume.datasets import access as module
from dtsflow.volume.datasets.access import OpenVolumes, read_labels
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.format.header import BLOCK_BYTES, Kind

VOLUMES: list[list[list[tuple[bytes, int]]]] = [
    [[(b"a", 3), (b"b", 1)], []],
    [[]],
    [[(b"c", 0)], [(b"d", 2), (b"e", 3)]],
]


@pytest.mark.parametrize("turn", [1, 2, 64])
def test_labels_come_in_volume_order_through_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn: int
) -> None:
    monkeypatch.setattr(module, "_TURN_BLOCKS", turn)
    write_block_set(tmp_path, "set", VOLUMES)
    found = read_labels(scan(tmp_path))
    assert found.dtype == np.int32
    assert found.tolist() == [3, 1, 0, 2, 3]


def test_those_of_a_pixel_set_are_read_too(tmp_path: Path) -> None:
    volumes = scan(write_small_set(tmp_path / "mnist_test.dts", Kind.MNIST, 31))
    with OpenVolumes(volumes) as one_by_one:
        assert read_labels(volumes).tolist() == [sample.label for sample in one_by_one]


def test_a_damaged_index_is_named(tmp_path: Path) -> None:
    volumes = scan(write_block_set(tmp_path, "set", VOLUMES)[0].parent)
    damage(volumes.files[2].path, 2 * BLOCK_BYTES, b"x")
    with pytest.raises(BlockError, match=r"block 1 of .*00003-of-00003"):
        read_labels(volumes)
