import os
import tarfile
from pathlib import Path

import pytest

from dtsflow.errors import PackError, SetError
from dtsflow.testing import jpeg, write_block_set, write_block_volume
from dtsflow.volume.source.base import NO_CLASS
from dtsflow.volume.source.detect import list_source

BLOCKS = [[(b"b", 1), (b"a", 0)]]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
        (folder / name / "1.jpg").write_bytes(jpeg(4, 4))
    return folder


def labels_of(path: Path) -> list[tuple[str, int]]:
    return [(image.name, image.label) for image in list_source(path).images]


def test_a_folder_of_class_folders_is_a_source(tree: Path) -> None:
    assert labels_of(tree) == [("a/1.jpg", 0), ("b/1.jpg", 1)]


def test_a_flat_folder_is_a_source_without_classes(tree: Path) -> None:
    assert labels_of(tree / "a") == [("1.jpg", NO_CLASS)]


def test_a_tar_is_a_source(tree: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "t.TAR", "w") as tar:
        tar.add(tree, "tree")
    assert labels_of(tmp_path / "t.TAR") == [("a/1.jpg", 0), ("b/1.jpg", 1)]


def test_a_compressed_tar_is_told_to_be_decompressed(tree: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "t.tar.gz", "w:gz") as tar:
        tar.add(tree, "tree")
    with pytest.raises(PackError, match="Decompress"):
        list_source(tmp_path / "t.tar.gz")


def test_a_volume_is_a_source_in_volume_order(tmp_path: Path) -> None:
    path = write_block_volume(tmp_path / "v.dts", BLOCKS)
    for source in (path, tmp_path, tmp_path / "*.dts"):
        assert labels_of(source) == [("1/00000000", 1), ("0/00000001", 0)]


def test_a_set_of_volumes_is_one_source(tmp_path: Path) -> None:
    write_block_set(tmp_path, "s", [BLOCKS, BLOCKS])
    assert len(list_source(tmp_path).images) == 4
    assert len(list_source(tmp_path / "s-*-of-00002.dts").images) == 4
    with pytest.raises(SetError, match="missing: 00002-of-00002"):
        list_source(tmp_path / "s-00001-of-00002.dts")


def test_an_unfinished_volume_makes_no_folder_of_volumes(tree: Path) -> None:
    (tree / ".v.dts.12.part").touch()
    (tree / ".v.dts").touch()
    assert len(labels_of(tree)) == 2


@pytest.mark.parametrize("name", ["none", "none.tar", "none.dts", "*.jpg", "tree/a/1.jpg/x"])
def test_what_is_not_there_is_named_with_all_that_could_be(tree: Path, name: str) -> None:
    with pytest.raises(PackError, match=r"is not there\. Name a folder of class .* \.tar .* \.dts"):
        list_source(tree.parent / name)


def test_a_pattern_without_a_match_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetError, match="as a pattern it matches nothing"):
        list_source(tmp_path / "*.dts")


def test_another_kind_of_file_is_no_source(tree: Path) -> None:
    with pytest.raises(PackError, match=r"1\.jpg is no source of images\. Name"):
        list_source(tree / "a" / "1.jpg")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_a_pipe_is_no_source_and_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.tar")
    with pytest.raises(PackError, match="no source of images"):
        list_source(tmp_path / "p.tar")


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_an_impossible_path_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PackError, match="cannot be looked up"):
        list_source(tmp_path / name)
