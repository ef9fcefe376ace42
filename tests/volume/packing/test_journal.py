import json
from pathlib import Path

import pytest

from dtsflow.volume.packing.prepare import Sums
from dtsflow.volume.packing.volume_part import Mark, read_marks

SUMS = Sums(2, 3 << 40, (1, 2, 3), (4, 5, 6 << 70))
MARKS = [
    Mark(position=5, count=4, crc=0xFFFFFFFF, samples=4, rejects=1, rejects_bytes=33),
    Mark(position=9, count=4, crc=0, samples=8, source_bytes=1 << 40, max_area=7, sums=SUMS),
    Mark(position=11, count=2, crc=1, samples=10, manifest_bytes=999, sums=SUMS + SUMS),
]
WHOLE = b"".join(mark.line() for mark in MARKS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "v.dts.journal"


def test_marks_come_back_as_they_were(path: Path) -> None:
    path.write_bytes(WHOLE)
    assert read_marks(path) == MARKS
    assert all(mark.line().count(b"\n") == 1 for mark in MARKS)


def test_no_file_and_an_empty_one_have_no_marks(path: Path) -> None:
    assert read_marks(path) == []
    path.touch()
    assert read_marks(path) == []


def test_wherever_the_file_is_torn_the_whole_lines_before_count(path: Path) -> None:
    ends = [sum(len(mark.line()) for mark in MARKS[:n]) for n in range(4)]
    for end in range(len(WHOLE)):
        path.write_bytes(WHOLE[:end])
        assert read_marks(path) == MARKS[: sum(end >= place for place in ends[1:])]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\n",
        b"\0" * 100 + b"\n",
        b"\xff\xfe\n",
        b"null\n",
        b"[]\n",
        b"[1]\n",
        b"7\n",
        b'"text"\n',
        b"{}\n",
        b'{"sums": 1}\n',
        b'{"sums": []}\n',
        b'{"sums": {}}\n',
        b'{"sums": {"totals": 1, "squares": 2}}\n',
        MARKS[0].line().replace(b"crc", b"cro"),
        MARKS[0].line().replace(b"{", b"{{", 1),
        MARKS[0].line()[1:],
        json.dumps({"position": 1}).encode() + b"\n",
    ],
)
def test_garbage_ends_the_marks_and_what_follows_does_not_count(path: Path, garbage: bytes) -> None:
    path.write_bytes(MARKS[0].line() + garbage + MARKS[1].line())
    assert read_marks(path) == MARKS[:1]
