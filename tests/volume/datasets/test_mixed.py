from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dtsflow.errors import BlockError, PlanError
from dtsflow.testing import write_block_set, write_block_volume, write_small_set
from dtsflow.volume.datasets.access import read_labels
from dtsflow.volume.datasets.mixed import mixed
from dtsflow.volume.datasets.scan import read_indexes, scan
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.header import BLOCK_BYTES, SMALL_AREA_BYTES, Kind

WriteIndexed = Callable[..., Path]


@pytest.fixture
def blocks(tmp_path: Path) -> dict[str, VolumeSet]:
    """A set of two volumes at level 0, and one at level 2."""
    write_block_set(tmp_path, "first", [[[(b"a", 0)], []], [[(b"b", 1), (b"c", 4)]]])
    other = write_block_volume(tmp_path / "other.dts", [[(b"dd", 2)], [(b"ee", 6)]], level=2)
    return {"one": scan(tmp_path / "first*"), "two": scan(other)}


def test_blocks_and_ids_of_a_source_start_where_those_before_it_end(
    blocks: dict[str, VolumeSet],
) -> None:
    mix = mixed(blocks)
    assert mix.counts.tolist() == [1, 0, 2, 1, 1]
    assert mix.first_ids.tolist() == [0, 1, 1, 3, 4]
    assert mix.blocks_of_sources == (3, 2)
    assert (mix.num_samples, mix.num_classes, mix.names_classes) == (5, 7, False)
    assert mix.where(3) == "other.dts block 0 sample 0"
    assert mix.span(4).path.name == "other.dts"
    assert read_labels(mix).tolist() == [0, 1, 4, 2, 6]


def test_each_block_is_read_at_its_own_level(blocks: dict[str, VolumeSet]) -> None:
    mix = mixed(blocks)
    assert [mix.index_bytes(block) for block in range(5)] == [4096] * 3 + [16384] * 2
    sizes = [index.sizes.tolist() for _, index in read_indexes(mix, range(5))]
    assert sizes == [[1], [], [1, 1], [2], [2]]


def test_a_set_alone_has_no_sources(blocks: dict[str, VolumeSet]) -> None:
    assert blocks["one"].blocks_of_sources == ()


def test_the_fingerprint_is_of_all_sources_in_their_order(blocks: dict[str, VolumeSet]) -> None:
    one, two = blocks["one"], blocks["two"]
    found = [mixed({"a": x, "b": y}).fingerprint() for x, y in ((one, two), (two, one))]
    assert len({*found, one.fingerprint(), two.fingerprint()}) == 4
    assert mixed({"other": one, "names": two}).fingerprint() == found[0]


def test_a_source_may_be_there_twice(blocks: dict[str, VolumeSet]) -> None:
    mix = mixed({"a": blocks["two"], "b": blocks["two"]})
    assert (mix.num_samples, mix.blocks_of_sources) == (4, (2, 2))
    assert mix.span(0) == mix.span(2)


def test_pixel_files_of_one_image_size_are_a_block_each(tmp_path: Path) -> None:
    paths = [write_small_set(tmp_path / f"{n}.dts", Kind.CIFAR10, n, seed=n) for n in (3, 5)]
    mix = mixed({"a": scan(paths[0]), "b": scan(paths[1])})
    assert (mix.layout, mix.counts.tolist()) == ("pixels", [3, 5])
    assert [mix.span(block).nbytes for block in (0, 1)] == [3 * 3073, 5 * 3073]
    memory = np.fromfile(paths[1], np.uint8)[SMALL_AREA_BYTES:]
    index = mix.index(1, memory)
    assert index.labels.tolist() == memory[:5].tolist()
    assert index.offsets.tolist() == [5 + 3072 * sample for sample in range(5)]
    mix.check_content(1, memory)
    memory[7] ^= 1
    with pytest.raises(BlockError, match=r"5\.dts is damaged"):
        mix.check_content(1, memory)


def test_images_that_differ_are_refused(tmp_path: Path, blocks: dict[str, VolumeSet]) -> None:
    digits = scan(write_small_set(tmp_path / "m.dts", Kind.MNIST, 3))
    colours = scan(write_small_set(tmp_path / "c.dts", Kind.CIFAR10, 3))
    with pytest.raises(PlanError, match="one holds compressed images, m holds pixels of 28 x 28"):
        mixed({**blocks, "m": digits})
    with pytest.raises(PlanError, match="m holds pixels of 28 x 28 x 1, c holds pixels of 32 x 32"):
        mixed({"m": digits, "c": colours})


def test_class_names_that_differ_are_refused_by_the_first_difference(tmp_path: Path) -> None:
    ten = scan(write_small_set(tmp_path / "10.dts", Kind.CIFAR10, 3))
    hundred = scan(write_small_set(tmp_path / "100.dts", Kind.CIFAR100, 3))
    with pytest.raises(PlanError, match="class 0 is 'airplane' in ten and 'apple' in hundred"):
        mixed({"ten": ten, "hundred": hundred})


def test_a_source_with_more_classes_or_without_names_is_refused(
    tmp_path: Path, write_indexed: WriteIndexed
) -> None:
    three = scan(write_indexed(tmp_path / "3.dts", [[(b"a", 0)]]))
    five = scan(write_indexed(tmp_path / "5.dts", [[(b"a", 4)]]))
    unnamed = scan(write_block_volume(tmp_path / "0.dts", [[(b"a", 0)]]))
    with pytest.raises(PlanError, match="class 3 is missing in three and 'class3' in five"):
        mixed({"three": three, "five": five})
    with pytest.raises(PlanError, match="three names its classes and zero does not"):
        mixed({"zero": unnamed, "three": three})
    assert mixed({"three": three, "again": three}).class_names == three.class_names


def test_checksums_cover_a_mix_only_if_they_cover_every_source(
    tmp_path: Path, write_indexed: WriteIndexed, blocks: dict[str, VolumeSet]
) -> None:
    indexed = scan(write_indexed(tmp_path / "i.dts", [[(b"a", 0)]]))
    assert mixed({"a": indexed, "b": indexed}).has_checksums
    assert not mixed(blocks).has_checksums
    memory = np.fromfile(tmp_path / "i.dts", np.uint8)[BLOCK_BYTES:]
    memory[-1] = 1
    with pytest.raises(BlockError, match=r"block 0 of .*i\.dts is damaged"):
        mixed({"a": indexed, "b": indexed}).check_content(1, memory)
