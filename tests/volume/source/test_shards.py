from pathlib import Path

import pytest

from dtsflow.errors import PackError
from dtsflow.volume.source.shards import is_folder_of, is_pattern, part_files


def touch(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()


def named(path: Path) -> list[str]:
    return [found.name for found in part_files(path, ".tar")]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("s-{08..11}.tar", ["s-08.tar", "s-09.tar", "s-10.tar", "s-11.tar"]),
        ("s-{8..10}.tar", ["s-8.tar", "s-9.tar", "s-10.tar"]),
        ("{b,a}-{0..1}.tar", ["b-0.tar", "b-1.tar", "a-0.tar", "a-1.tar"]),
        ("{b,a}-*.tar", ["b-0.tar", "b-1.tar", "a-0.tar", "a-1.tar"]),
        ("*-1.tar", ["a-1.tar", "b-1.tar"]),
        ("a-[01].tar", ["a-0.tar", "a-1.tar"]),
    ],
)
def test_a_list_keeps_its_order_and_a_pattern_is_sorted(
    tmp_path: Path, text: str, wanted: list[str]
) -> None:
    touch(tmp_path, *(f"{letter}-{number}.tar" for letter in "ab" for number in range(2)))
    touch(tmp_path, *(f"s-{number}.tar" for number in ("08", "09", "8", "9", "10", "11")))
    assert named(tmp_path / text) == wanted
    assert is_pattern(tmp_path / text)


def test_a_file_that_is_there_is_no_pattern(tmp_path: Path) -> None:
    touch(tmp_path, "s-{0..1}.tar")
    assert named(tmp_path / "s-{0..1}.tar") == ["s-{0..1}.tar"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("s-{0..2}.tar", r"names .*s-2\.tar, which is no file or is missing"),
        ("s-{0,0}.tar", r"names .*s-0\.tar twice"),
        ("s-{1..0}.tar", r"\{1\.\.0\} stands for 0 files"),
        ("s-{0..99999999}.tar", r"at most 1048576"),
        ("{0..9999}{0..9999}.tar", "stands for 100000000 files"),
        ("x-*.tar", "the pattern matches nothing"),
    ],
)
def test_a_list_that_cannot_be_is_refused(tmp_path: Path, text: str, what: str) -> None:
    touch(tmp_path, "s-0.tar", "s-1.tar")
    with pytest.raises(PackError, match=what):
        part_files(tmp_path / text, ".tar")


def test_a_folder_has_the_parts_of_one_set(tmp_path: Path) -> None:
    touch(tmp_path, "s-1.tar", "s-0.TAR", ".s-2.tar", "readme.md", "info.json")
    assert is_folder_of(tmp_path, ".tar")
    assert named(tmp_path) == ["s-0.TAR", "s-1.tar"]
    touch(tmp_path, "val-0.tar")
    with pytest.raises(PackError, match=r"several sets: s-\*\.tar, val-\*\.tar.*quoted pattern"):
        part_files(tmp_path, ".tar")


@pytest.mark.parametrize("other", ["1.jpg", "inner/x", "x.parquet"])
def test_a_folder_with_anything_else_is_no_set_of_parts(tmp_path: Path, other: str) -> None:
    touch(tmp_path, "s-0.tar")
    touch((tmp_path / other).parent, Path(other).name)
    assert not is_folder_of(tmp_path, ".tar")


@pytest.mark.parametrize(("first", "missing"), [(0, 2), (1, 3), (0, 3), (1, 1)])
def test_where_parts_are_counted_a_missing_one_is_named(
    tmp_path: Path, first: int, missing: int
) -> None:
    numbers = [number for number in range(first, first + 4) if number != missing]
    touch(tmp_path, *(f"t-{number:05d}-of-00004.tar" for number in numbers))
    with pytest.raises(PackError, match=f"has 3 of 4 files, number {missing:05d} is missing"):
        part_files(tmp_path, ".tar")
    touch(tmp_path, f"t-{missing:05d}-of-00004.tar")
    assert len(named(tmp_path)) == 4
