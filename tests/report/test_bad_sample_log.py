import json
import logging
from pathlib import Path

import pytest

from dtsflow.errors import DecodeError
from dtsflow.report.bad_samples import REMEMBERED, BadSampleLog
from dtsflow.station.bad_samples import BadSample


def found(*rows: int) -> list[BadSample]:
    return [BadSample(row, 100 + row, row % 7, f"x.dts sample {row}", "cut", None) for row in rows]


def take(told: BadSampleLog, bad: list[BadSample], step: int = 0) -> None:
    told.take(bad, phase="train", epoch=2, step=step, first_row=1000)


def test_a_line_says_all_of_a_row(tmp_path: Path) -> None:
    told = BadSampleLog("mask", None, tmp_path)
    take(told, found(3), step=5)
    (line,) = (tmp_path / "bad_samples.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "phase": "train",
        "epoch": 2,
        "step": 5,
        "row": 1003,
        "sample_id": 103,
        "label": 3,
        "where": "x.dts sample 3",
        "reason": "cut",
        "action": "mask",
        "substitute": None,
    }


def test_lines_are_in_the_file_as_soon_as_they_are_taken(tmp_path: Path) -> None:
    told = BadSampleLog("mask", None, tmp_path)
    for step in range(4):
        take(told, found(step, step + 1), step)
        lines = (tmp_path / "bad_samples.jsonl").read_text().splitlines()
        assert len(lines) == told.count == 2 * (step + 1)


def test_a_run_that_goes_on_adds_to_the_list(tmp_path: Path) -> None:
    for _ in range(2):
        take(BadSampleLog("mask", None, tmp_path), found(1))
    assert len((tmp_path / "bad_samples.jsonl").read_text().splitlines()) == 2


def test_without_a_folder_they_are_counted_and_the_first_remembered(tmp_path: Path) -> None:
    told = BadSampleLog("replace", None, None)
    take(told, found(*range(REMEMBERED - 1)))
    take(told, found(1, 2, 3), step=1)
    take(told, found(4), step=2)
    assert told.count == REMEMBERED + 3
    assert len(told.first) == REMEMBERED
    assert (told.first[-1].step, told.first[-1].row) == (1, 1001)
    assert not list(tmp_path.iterdir())


def test_as_many_as_allowed_pass_and_the_next_one_is_named(tmp_path: Path) -> None:
    told = BadSampleLog("mask", 3, tmp_path)
    take(told, found(1, 2))
    with pytest.raises(DecodeError, match=r"max_errors=3 .* x\.dts sample 6 .*sample_id 106"):
        take(told, found(5, 6, 7), step=1)
    assert told.count == len((tmp_path / "bad_samples.jsonl").read_text().splitlines()) == 2
    take(told, found(5), step=1)
    assert told.count == 3


def test_what_has_no_label_is_named_without_one() -> None:
    bad = [BadSample(0, 7, None, "part-001, line 2", "field x: cut", None)]
    with pytest.raises(DecodeError, match=r"found: part-001, line 2 \(sample_id 7\): field x: cut"):
        take(BadSampleLog("mask", 0, None), bad)


def test_no_bad_sample_at_all_can_be_allowed() -> None:
    with pytest.raises(DecodeError, match=r"max_errors=0 .* x\.dts sample 4"):
        take(BadSampleLog("replace", 0, None), found(4, 5))


def test_the_first_one_is_worth_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told = BadSampleLog("mask", None, tmp_path)
    with caplog.at_level(logging.WARNING):
        take(told, found(3, 4))
        take(told, found(5))
    (record,) = caplog.records
    assert "x.dts sample 3 (sample_id 103): cut" in record.getMessage()
    assert str(tmp_path / "bad_samples.jsonl") in record.getMessage()
