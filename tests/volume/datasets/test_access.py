from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import dtsflow.volume
from dtsflow.errors import ClosedError
from dtsflow.testing import write_block_set, write_small_set
from dtsflow.volume.datasets.access import open_volumes
from dtsflow.volume.format.header import Kind

VOLUMES = [[[(b"zero", 3), (b"one", 1)], []], [[(b"two", 0)]]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_block_set(tmp_path, "v", VOLUMES)
    return tmp_path


def test_samples_are_taken_by_number(folder: Path) -> None:
    with open_volumes(folder) as volumes:
        assert len(volumes) == 3
        sample = volumes[1]
        assert (bytes(sample.data), sample.label, sample.class_name) == (b"one", 1, "1")
        assert sample.sample_id == 1
        assert [bytes(sample.data) for sample in volumes] == [b"zero", b"one", b"two"]


def test_numbers_count_from_the_end_too(folder: Path) -> None:
    with open_volumes(folder) as volumes:
        assert (bytes(volumes[-1].data), volumes[-1].sample_id) == (b"two", 2)
        assert bytes(volumes[-3].data) == b"zero"
        for number in (3, -4):
            with pytest.raises(IndexError, match=f"sample {number} of a set with 3"):
                volumes[number]


def test_labels_and_sizes_of_all_samples(folder: Path) -> None:
    with open_volumes(folder) as volumes:
        assert volumes.sizes.tolist() == [4, 3, 3]
        assert volumes.labels.tolist() == [3, 1, 0]
        assert volumes.labels.dtype == np.int32


def test_a_whole_block_is_given_without_copies(folder: Path) -> None:
    with open_volumes(folder) as volumes:
        block = volumes.block(0)
        assert [bytes(sample) for sample in block.samples] == [b"zero", b"one"]
        assert block.labels.tolist() == [3, 1]
        assert block.memory.ctypes.data % 4096 == 0
        block.memory[block.index.offsets[0]] = ord("Z")
        assert bytes(block.samples[0]) == b"Zero"
        assert volumes.block(1).samples == ()
        assert volumes.block(2).first_id == 2


def test_pixels_are_the_samples_of_a_small_set(tmp_path: Path) -> None:
    path = write_small_set(tmp_path / "m.dts", Kind.MNIST, 4)
    payload = path.read_bytes()[256:]
    with open_volumes(path) as volumes:
        assert bytes(volumes[2].data) == payload[4 + 2 * 784 : 4 + 3 * 784]
        assert [volumes[i].label for i in range(4)] == list(payload[:4])
        assert volumes.labels.tolist() == list(payload[:4])
        assert volumes[0].class_name == str(payload[0])
        assert bytes(volumes.block(0).samples[3]) == payload[4 + 3 * 784 :]


def test_threads_may_share_one(folder: Path) -> None:
    with open_volumes(folder) as volumes, ThreadPoolExecutor(8) as pool:
        read = pool.map(lambda i: bytes(volumes[i % 3].data), range(300))
        assert list(read) == [b"zero", b"one", b"two"] * 100


def test_closed_volumes_say_so(folder: Path) -> None:
    volumes = open_volumes(folder)
    assert bytes(volumes[0].data) == b"zero"
    volumes.close()
    volumes.close()
    with pytest.raises(ClosedError, match="was closed"):
        volumes[0]


def test_users_call_it_open(folder: Path) -> None:
    with dtsflow.volume.open(folder) as volumes:
        assert len(volumes) == 3
