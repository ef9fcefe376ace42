import errno
import os
from pathlib import Path

import pytest

from dtsflow.errors import PackError
from dtsflow.volume.source.base import NO_CLASS
from dtsflow.volume.source.folder import read_tree


def touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_labels_are_the_ranks_of_the_class_paths(tmp_path: Path) -> None:
    touch(tmp_path, "b/2.jpg", "a/x/1.JPEG", "a/y/0.png", "c/z.webp", "c/y.Bmp")
    tree = read_tree(tmp_path)
    assert tree.classes == ("a/x", "a/y", "b", "c")
    assert [(image.name, image.label) for image in tree.images] == [
        ("a/x/1.JPEG", 0),
        ("a/y/0.png", 1),
        ("b/2.jpg", 2),
        ("c/y.Bmp", 3),
        ("c/z.webp", 3),
    ]


def test_every_file_but_a_hidden_one_is_listed_whatever_it_is_called(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.jpg", "a/.2.jpg", "a/3.txt", "a/jpg", ".cache/4.jpg")
    tree = read_tree(tmp_path)
    assert [image.name for image in tree.images] == ["a/1.jpg", "a/3.txt", "a/jpg"]
    assert tree.classes == ("a",)


def test_two_leaves_with_one_name_are_two_classes(tmp_path: Path) -> None:
    touch(tmp_path, "cats/small/1.jpg", "dogs/small/1.jpg")
    assert read_tree(tmp_path).classes == ("cats/small", "dogs/small")


def test_a_class_without_an_image_keeps_its_label(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.jpg", "c/1.jpg")
    (tmp_path / "b").mkdir()
    assert read_tree(tmp_path).classes == ("a", "b", "c")


def test_an_image_in_no_class_folder_has_no_label(tmp_path: Path) -> None:
    touch(tmp_path, "stray.jpg", "a/1.jpg")
    tree = read_tree(tmp_path)
    assert tree.classes == ("a",)
    assert [(image.name, image.label) for image in tree.images] == [
        ("a/1.jpg", 0),
        ("stray.jpg", NO_CLASS),
    ]


def test_a_folder_named_like_an_image_is_a_folder(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg/1.jpg")
    assert read_tree(tmp_path).classes == ("a.jpg",)


def test_links_are_followed_unless_they_lead_back(tmp_path: Path) -> None:
    touch(tmp_path, "elsewhere/1.jpg", "source/a/2.jpg")
    source = tmp_path / "source"
    (source / "b").symlink_to(tmp_path / "elsewhere")
    assert read_tree(source).classes == ("a", "b")
    (source / "a" / "loop").symlink_to(source)
    with pytest.raises(PackError, match="loop is a link to a folder it lies in"):
        read_tree(source)


def test_a_file_is_no_source(tmp_path: Path) -> None:
    touch(tmp_path, "x")
    with pytest.raises(PackError, match="x is no folder"):
        read_tree(tmp_path / "x")


@pytest.mark.parametrize("name", ["a b.jpg", "\N{CAT FACE}.jpg", f"{'y' * 251}.jpg"])
def test_any_file_name_is_a_name(tmp_path: Path, name: str) -> None:
    touch(tmp_path, f"the class/{name}")
    tree = read_tree(tmp_path)
    assert tree.classes == ("the class",)
    assert [image.name for image in tree.images] == [f"the class/{name}"]


def test_a_link_to_nowhere_is_a_reject(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.jpg")
    (tmp_path / "a" / "2.jpg").symlink_to("none.jpg")
    tree = read_tree(tmp_path)
    assert [image.name for image in tree.images] == ["a/1.jpg"]
    assert [(one.name, one.reason) for one in tree.rejects] == [
        ("a/2.jpg", "No such file or directory")
    ]


def test_links_that_lead_to_each_other_are_rejects(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.jpg")
    (tmp_path / "a" / "2.jpg").symlink_to("3.jpg")
    (tmp_path / "a" / "3.jpg").symlink_to("2.jpg")
    tree = read_tree(tmp_path)
    assert [image.name for image in tree.images] == ["a/1.jpg"]
    assert [one.name for one in tree.rejects] == ["a/2.jpg", "a/3.jpg"]


def test_a_folder_that_cannot_be_listed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path, "a/1.jpg", "b/1.jpg")
    scandir = os.scandir

    def forbidding(folder: str) -> object:  # root may read everything
        if folder.endswith("/b"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr("dtsflow.volume.source.folder.os.scandir", forbidding)
    with pytest.raises(PackError, match="b cannot be listed: Permission denied"):
        read_tree(tmp_path)


def test_a_pipe_is_a_reject_and_not_waited_for(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.jpg")
    os.mkfifo(tmp_path / "a" / "2.jpg")
    tree = read_tree(tmp_path)
    assert [image.name for image in tree.images] == ["a/1.jpg"]
    assert [(one.name, one.reason) for one in tree.rejects] == [
        ("a/2.jpg", "neither a file nor a folder")
    ]


def test_folders_in_each_other_without_end_are_refused(tmp_path: Path) -> None:
    touch(tmp_path, "a/" * 63 + "1.jpg")
    assert len(read_tree(tmp_path).images) == 1
    touch(tmp_path, "a/" * 500 + "1.jpg")
    with pytest.raises(PackError, match="64 folders below the source, at most 63 are"):
        read_tree(tmp_path)
