from pathlib import Path
from typing import Any

import pytest

import dtsflow
from dtsflow.cli.run import summary
from dtsflow.testing import write_small_set
from dtsflow.volume.format.header import Kind


@pytest.fixture
def volume(workdir: Path) -> Path:
    return write_small_set(workdir / "mnist_test.dts", Kind.MNIST, 10)


def told(volume: Path, changes: dict[str, Any], *words: str) -> dict[str, str]:
    with dtsflow.open(f"volume.path={volume}", "batch_size=4", "workers=2", *words) as run:
        list(run.epoch(0))
        page = summary({**run.report(), **changes}, run)
    return {line[:16].strip(): line[17:] for line in page.splitlines()}


def test_numbers_of_the_report_are_what_a_person_reads(volume: Path) -> None:
    stages = {"read": 1.0, "decode": 2.0, "po": 1.0, "native": 0.0, "wait": 0.5}
    changes: dict[str, Any] = {
        "images": 12345,
        "steps": 1000,
        "images_per_s": 1234.4,
        "first_batch_s": 0.256,
        "stages": stages,
        "peak_rss_bytes": (64 + 30) << 20,
        "rss_before_bytes": 64 << 20,
        "plan_bytes": 20 << 20,
    }
    lines = told(volume, changes)
    assert lines["images"] == "12,345 in 1,000 steps"
    assert lines["speed"] == "1,234 images/s with 2 workers"
    assert lines["first batch"].startswith("0.26 s")
    assert lines["consumer"] == "waited 0.50 s for batches"
    assert lines["memory"].startswith("30.0 MiB more at peak, 20.0 MiB planned")
    assert not {"digest samples", "sheet", "written to"} & set(lines)


@pytest.mark.parametrize(("on_error", "done"), [("mask", "masked"), ("replace", "replaced")])
def test_bad_samples_have_a_line_if_there_are_any(volume: Path, on_error: str, done: str) -> None:
    words = (f"decode.on_error={on_error}",)
    assert "bad samples" not in told(volume, {}, *words)
    some = {"bad_samples": 1234}
    assert told(volume, some, *words)["bad samples"] == f"1,234 {done}"
    named = told(volume, some, *words, "name=mine")["bad samples"]
    assert named == f"1,234 {done}, listed in bad_samples.jsonl"


def test_what_a_consumer_made_is_shown_with_the_folder(volume: Path) -> None:
    changes = {"digest": {"samples": "ab", "sequence": "cd", "epochs": []}, "sheet": "s.png"}
    lines = told(volume, changes, "name=mine")
    assert lines["digest samples"] == "ab"
    assert lines["digest sequence"] == "cd"
    assert lines["sheet"] == "s.png"
    assert lines["written to"] == "runs/mine/"


def test_a_run_that_did_no_work_divides_by_nothing(volume: Path) -> None:
    stages = {"read": 0.0, "decode": 0.0, "po": 0.0, "native": 0.0, "wait": 0.0}
    assert "0 in 0 steps" in told(volume, {"images": 0, "steps": 0, "stages": stages})["images"]
