from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.errors import SetError, VolumeError
from dtsflow.volume.datasets.image_list import folder_at
from dtsflow.volume.datasets.lines import PartFiles, list_lines


def write(folder: Path, *parts: bytes) -> PartFiles:
    for number, data in enumerate(parts):
        (folder / f"part-{number}").write_bytes(data)
    return PartFiles.numbered(folder, len(parts))


@given(st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=4))
def test_lines_read_at_random_are_those_of_the_stream(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]
) -> None:
    files = write(tmp_path_factory.mktemp("parts"), *parts)
    with files.open() as stream:
        expected = list(stream)
    lines = files.lines()
    reader = lines.start()
    assert [reader.read(n) for n in reversed(range(len(lines)))] == expected[::-1]
    reader.close()
    pieces = [
        line for data in parts for line in data.split(b"\n")[: -1 if data[-1:] == b"\n" else None]
    ]
    assert expected == [line.removesuffix(b"\r") for line in pieces]


def test_a_line_knows_its_file_and_line(tmp_path: Path) -> None:
    files = write(tmp_path, b"a\nb\r\n", b"\nc")
    lines = files.lines()
    assert [lines.where(n).removeprefix(f"{tmp_path}/") for n in range(4)] == [
        "part-0, line 1", "part-0, line 2", "part-1, line 1", "part-1, line 2",
    ]  # fmt: skip
    with files.open() as stream:
        assert [(line, stream.where.removeprefix(f"{tmp_path}/")) for line in stream] == [
            (b"a", "part-0, line 1"), (b"b", "part-0, line 2"),
            (b"", "part-1, line 1"), (b"c", "part-1, line 2"),
        ]  # fmt: skip


def test_exact_reads_go_across_parts_and_name_a_short_end(tmp_path: Path) -> None:
    files = write(tmp_path, b"abc", b"de", b"fghi")
    with files.open() as stream:
        assert stream.read_exactly(4) == b"abcd"
        assert stream.read_exactly(4) == b"efgh"
        with pytest.raises(VolumeError, match=r"part-2, byte \d: .*ended 3 bytes early: 4 were"):
            stream.read_exactly(4)
    with files.open() as stream:
        assert [stream.read_exactly(3) for _ in range(4)] == [b"abc", b"def", b"ghi", None]


def test_the_digest_follows_what_the_files_hold_and_not_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    one = write(tmp_path / "one", b"a\nb\n").lines().digest()
    assert write(tmp_path / "other", b"a\nb\n").lines().digest() == one
    assert write(tmp_path / "other", b"a\nB\n").lines().digest() != one


@pytest.mark.parametrize("changed", [b"a\n", b"a\nbb\nccc\n"])
def test_a_file_that_changed_since_is_named(tmp_path: Path, changed: bytes) -> None:
    lines = write(tmp_path, b"a\nbb\n").lines()
    (tmp_path / "part-0").write_bytes(changed)
    reader = lines.start()
    with pytest.raises(VolumeError, match="part-0 changed since its lines were listed"):
        reader.read(1)
    reader.close()
    (tmp_path / "part-0").unlink()
    with pytest.raises(VolumeError, match="part-0 cannot be opened"):
        lines.start().read(0)
    with pytest.raises(VolumeError, match="part-0 cannot be opened"):
        list_lines(lines.paths)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((3,), r"part-2 is not there. There are 2 parts: part-0, part-1."),
        ((1, "piece-"), r"piece-0 is not there. .* no file whose name begins with 'piece-'"),
        ((1, "part-", 4), r"part-0000 is not there."),
        ((0,), r"0 parts were asked for"),
    ],
)
def test_parts_that_are_not_there_are_named(
    tmp_path: Path, arguments: tuple[int, str, int], told: str
) -> None:
    write(tmp_path, b"a", b"b")
    with pytest.raises(SetError, match=told):
        PartFiles.numbered(tmp_path, *arguments)


def test_a_place_that_is_no_folder_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(SetError, match="nowhere is no folder"):
        PartFiles.numbered(tmp_path / "nowhere", 1)


def test_a_folder_of_a_package_is_found_and_none_outside_it() -> None:
    assert (folder_at("pkg://dtsflow/cli") / "main.py").is_file()
    assert folder_at("some/where") == Path("some/where")
    for place in ("pkg://dtsflow/../x", "pkg://nobody_has_this/x", "pkg://os.path/x", "pkg:///x"):
        with pytest.raises(SetError, match="pkg://"):
            folder_at(place)
