import shutil
import struct
from pathlib import Path

import pytest

from dtsflow.errors import SetError
from dtsflow.testing import damage, write_block_set, write_block_volume, write_small_set
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.format.header import Kind

VOLUMES = [[[(b"a", 0)]], [[(b"b", 1)], [(b"c", 2), (b"d", 0)]], [[(b"e", 1)]]]


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return write_block_set(tmp_path, "photos_train_lv0", VOLUMES)


def test_a_whole_set_is_one_data_set(paths: list[Path]) -> None:
    volumes = scan(paths[0].parent)
    assert [file.path for file in volumes.files] == paths
    assert volumes.counts.tolist() == [1, 1, 2, 1]
    assert volumes.num_samples == 5


def test_a_set_is_ordered_by_volume_id_not_by_name(paths: list[Path]) -> None:
    paths[0].rename(paths[0].with_name("zzz.dts"))
    assert [file.header.volume_id for file in scan(paths[0].parent).files] == [0, 1, 2]


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_volume_is_named(paths: list[Path], missing: int) -> None:
    paths[missing].unlink()
    with pytest.raises(SetError, match=f"3 volumes and 2 are here; missing: 0000{missing + 1}-of"):
        scan(paths[0].parent)


def test_one_file_of_a_set_is_not_the_set(paths: list[Path]) -> None:
    with pytest.raises(SetError, match="3 volumes and 1 are here; missing: 00001-of-00003, 00003"):
        scan(paths[1])


def test_a_hostile_number_of_volumes_is_only_a_message(paths: list[Path]) -> None:
    damage(paths[0], 56, struct.pack("<II", 0xFFFFFFFF, 0xFFFFFFFE))
    with pytest.raises(SetError, match=r"4294967295 volumes and 1 are here; .* and more"):
        scan(paths[0])
    with pytest.raises(SetError, match="does not belong"):
        scan(paths[0].parent)


def test_a_volume_that_is_there_twice_is_named(paths: list[Path]) -> None:
    shutil.copy(paths[1], paths[1].with_name("copy.dts"))
    with pytest.raises(SetError, match="both say they are volume 1"):
        scan(paths[0].parent)


@pytest.mark.parametrize(
    ("offset", "word", "message"),
    [
        (16, 0, "is_training False against True"),
        (56, 4, "num_volumes 4 against 3"),
        (64, 9, "total_blocks 9 against 4"),
    ],
)
def test_a_foreign_volume_is_named_with_both_values(
    paths: list[Path], offset: int, word: int, message: str
) -> None:
    damage(paths[2], offset, struct.pack("<I", word))
    with pytest.raises(SetError, match=rf"00003-of-00003\.dts does not belong .*{message}"):
        scan(paths[0].parent)


def test_a_foreign_level_or_kind_is_named(paths: list[Path]) -> None:
    paths[2].unlink()
    write_block_volume(paths[2], VOLUMES[2], level=1, part=(2, 3, 4))
    with pytest.raises(SetError, match="level 1 against 0"):
        scan(paths[0].parent)
    paths[2].unlink()
    write_small_set(paths[2], Kind.MNIST, 1)
    with pytest.raises(SetError, match="kind MNIST against IMAGENET"):
        scan(paths[0].parent)


def test_a_set_with_the_wrong_number_of_blocks_is_refused(paths: list[Path]) -> None:
    for path in paths:
        damage(path, 64, struct.pack("<I", 5))
    with pytest.raises(SetError, match="total_blocks of the set is 5, its 3 volumes have 4"):
        scan(paths[0].parent)


def test_a_folder_with_several_data_sets_lists_them(paths: list[Path]) -> None:
    folder = paths[0].parent
    write_block_set(folder, "photos_val_lv0", VOLUMES[:2], is_training=False)
    write_block_set(folder, "other_train_lv0", VOLUMES)
    write_small_set(folder / "mnist_test.dts", Kind.MNIST, 1)
    with pytest.raises(SetError, match="names 4 data sets; name one of them") as caught:
        scan(folder)
    for line in (
        "photos_train_lv0-*.dts: IMAGENET train LV0",
        "photos_val_lv0-*.dts: IMAGENET val LV0",
        "other_train_lv0-*.dts",
        "mnist_test.dts: MNIST val",
    ):
        assert line in str(caught.value)
    assert scan(folder / "photos_val*.dts").num_samples == 4


def test_several_single_volumes_are_several_data_sets(tmp_path: Path) -> None:
    write_small_set(tmp_path / "a.dts", Kind.MNIST, 1)
    write_small_set(tmp_path / "b.dts", Kind.MNIST, 2)
    with pytest.raises(SetError, match="2 data sets"):
        scan(tmp_path)
    assert scan(tmp_path / "b.dts").num_samples == 2


def test_a_set_without_any_sample_is_refused(tmp_path: Path) -> None:
    path = write_block_volume(tmp_path / "v.dts", [[], []])
    with pytest.raises(SetError, match="holds no samples"):
        scan(path)
