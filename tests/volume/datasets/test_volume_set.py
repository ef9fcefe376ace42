import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from dtsflow.errors import BlockError
from dtsflow.spec import ImageSpec
from dtsflow.testing import damage, write_block_set, write_block_volume, write_small_set
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.datasets.volume_set import BlockSpan, VolumeSet
from dtsflow.volume.format.header import BLOCK_BYTES, Kind

VOLUMES = [[[], [(b"a", 0), (b"bb", 6)], []], [[], [(b"c", 2)]]]


@pytest.fixture
def volumes(tmp_path: Path) -> VolumeSet:
    write_block_set(tmp_path, "v", VOLUMES, level=2, is_training=False)
    return scan(tmp_path)


def front(volumes: VolumeSet, block: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    span = volumes.span(block)
    with span.path.open("rb") as file:
        file.seek(span.offset)
        return np.frombuffer(file.read(volumes.index_bytes(block)), np.uint8)


def test_blocks_are_numbered_through_all_files(volumes: VolumeSet, tmp_path: Path) -> None:
    assert volumes.counts.tolist() == [0, 2, 0, 0, 1]
    assert volumes.first_ids.tolist() == [0, 0, 2, 2, 2]
    assert (volumes.num_blocks, volumes.num_samples) == (5, 3)
    second = tmp_path / "v-00002-of-00002.dts"
    assert volumes.span(4) == BlockSpan(second, 2 * BLOCK_BYTES, BLOCK_BYTES, 1)


def test_it_says_what_the_headers_and_labels_say(volumes: VolumeSet) -> None:
    assert (volumes.layout, volumes.level, volumes.is_training) == ("blocks", 2, False)
    assert volumes.num_classes == 7
    assert volumes.class_names == ("0", "1", "2", "3", "4", "5", "6")
    assert volumes.class_name(6) == "6"
    assert volumes.image == ImageSpec(None, None, 3)


def test_a_sample_is_found_past_empty_blocks(volumes: VolumeSet) -> None:
    assert [volumes.block_of(i) for i in range(3)] == [(1, 0), (1, 1), (4, 0)]
    assert volumes.where(1) == "v-00001-of-00002.dts block 1 sample 1"
    assert volumes.where(2) == "v-00002-of-00002.dts block 1 sample 0"


@pytest.mark.parametrize("sample_id", [-1, 3])
def test_a_sample_that_is_not_there_is_an_index_error(volumes: VolumeSet, sample_id: int) -> None:
    with pytest.raises(IndexError, match=f"sample {sample_id} of a set with 3"):
        volumes.block_of(sample_id)
    with pytest.raises(IndexError, match="block 5 of a set with 5"):
        volumes.span(5)


def test_an_index_is_read_from_the_bytes_of_a_block(volumes: VolumeSet) -> None:
    index = volumes.index(1, front(volumes, 1))
    assert index.labels.tolist() == [0, 6]
    assert index.sizes.tolist() == [1, 2]


def test_a_block_that_changed_since_the_scan_is_refused(tmp_path: Path) -> None:
    path = write_block_volume(tmp_path / "v.dts", [[(b"a", 0), (b"b", 0)]])
    volumes = scan(path)
    damage(path, BLOCK_BYTES + 8, struct.pack("<I", 1))
    with pytest.raises(BlockError, match="has 1 samples, it had 2 when it was scanned"):
        volumes.index(0, front(volumes, 0))


def test_pixels_are_one_span_of_labels_and_images(tmp_path: Path) -> None:
    path = write_small_set(tmp_path / "c.dts", Kind.CIFAR10, 5)
    volumes = scan(path)
    assert volumes.span(0) == BlockSpan(path, 256, 5 * 3073, 0)
    assert (volumes.layout, volumes.level) == ("pixels", 0)
    assert volumes.counts.tolist() == [5]
    assert volumes.num_classes == 10
    assert volumes.class_names[1] == volumes.class_name(1) == "automobile"
    assert volumes.image == ImageSpec(32, 32, 3)
    assert volumes.where(4) == "c.dts sample 4"
    index = volumes.index(0, front(volumes, 0))
    assert index.offsets.tolist() == [5 + i * 3072 for i in range(5)]


def test_a_set_can_be_sent_to_another_process(volumes: VolumeSet) -> None:
    copy = pickle.loads(pickle.dumps(volumes))
    assert copy.where(2) == volumes.where(2)
    assert copy.counts.tolist() == volumes.counts.tolist()


def test_counts_cannot_be_changed(volumes: VolumeSet) -> None:
    with pytest.raises(ValueError, match="read-only"):
        volumes.counts[0] = 1
