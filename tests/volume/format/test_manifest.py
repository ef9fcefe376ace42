import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.errors import VolumeError
from dtsflow.volume.format.manifest import (
    Entry,
    manifest_digest,
    manifest_path,
    read_manifest,
    rejects_path,
)


def entry(number: int = 0, name: str = "a/1.jpg") -> Entry:
    return Entry(
        id=number,
        name=name,
        label=1,
        bytes=5,
        sha256="0" * 64,
        crc32=0xFFFFFFFF,
        width=3,
        height=2,
    )


def test_a_line_is_one_json_object_in_the_documented_order() -> None:
    line = entry().line()
    assert line.endswith("}\n")
    assert list(json.loads(line)) == [
        "id",
        "name",
        "label",
        "bytes",
        "sha256",
        "crc32",
        "width",
        "height",
    ]


@given(name=st.text(st.characters(exclude_categories=())))
def test_any_name_is_one_line_of_ascii(name: str) -> None:
    line = entry(name=name).line()
    assert line.isascii()
    assert line.splitlines() == [line[:-1]]
    assert Entry(**json.loads(line)) == entry(name=name)


NAMES = ["a b/c.jpg", "\N{GRINNING FACE}.png", "\udcff\n\r\u2028", "x" * 255, '"\\', "\0"]


def test_entries_come_back_as_they_were_whatever_their_names(tmp_path: Path) -> None:
    path = tmp_path / "m"
    entries = [entry(number, name) for number, name in enumerate(NAMES)]
    path.write_text("".join(one.line() for one in entries), "ascii")
    assert list(read_manifest(path)) == entries


@pytest.mark.parametrize(
    "line",
    [
        "",
        "null",
        "[]",
        "7",
        "{}",
        "no json",
        "\xff\xfe",
        "\0\0\0",
        entry().line()[:-20],
        entry().line()[:-2] + ',"more":1}',
        entry().line().replace('"label"', '"lable"'),
    ],
)
def test_a_line_that_is_no_entry_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "m"
    path.write_bytes(f"{entry(0).line()}{line}\n{entry(1).line()}".encode("latin-1"))
    entries = read_manifest(path)
    assert next(entries) == entry(0)
    with pytest.raises(VolumeError, match=r"m line 2 is no manifest entry: .*copy it again"):
        next(entries)


def test_an_empty_manifest_has_no_entries(tmp_path: Path) -> None:
    (tmp_path / "m").touch()
    assert list(read_manifest(tmp_path / "m")) == []


def test_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"abc\r\n")
    assert manifest_digest(tmp_path / "m") == hashlib.sha256(b"abc\r\n").hexdigest()


def test_both_lists_lie_beside_their_volume() -> None:
    volume = Path("a.b/v_train_lv0-00001-of-00002.dts")
    assert manifest_path(volume) == Path(f"{volume}.manifest.jsonl")
    assert rejects_path(volume) == Path(f"{volume}.rejects.jsonl")
