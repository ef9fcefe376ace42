from typing import Any

import pytest

from dtsflow.consumer.digest import add_sequences
from dtsflow.report.report import ranks_report

LAST = f"{(1 << 256) - 1:064x}"


def of_rank(images: int, speed: float, sequence: str | None = None) -> dict[str, Any]:
    parts = [{"phase": "train", "epoch": 0, "samples": "ab", "sequence": sequence}]
    return {
        "images": images,
        "steps": 5,
        "images_per_s": speed,
        "first_batch_s": 0.5,
        "peak_rss_bytes": 1 << 20,
        "bad_samples": 1,
        "workers": 2,
        "stages": {"wait": speed / 10},
        "phases": {
            "train": {
                "images": images,
                "bad_samples": 1,
                "steps": 5,
                "split": "split(0)",
                "reader": {"io_retries": 3},
            }
        },
        "digest": sequence and {"samples": "ab", "sequence": sequence, "epochs": parts},
    }


def test_what_adds_up_is_added_and_the_rest_is_rank_0s() -> None:
    found = ranks_report([of_rank(10, 4.0), of_rank(12, 8.0), of_rank(11, 5.0)])
    assert (found["images"], found["images_per_s"], found["bad_samples"]) == (33, 17.0, 3)
    of_phase = found["phases"]["train"]
    assert (of_phase["images"], of_phase["bad_samples"], of_phase["steps"]) == (33, 3, 5)
    assert (found["steps"], found["workers"], found["digest"]) == (5, 2, None)


def test_each_rank_has_a_row_and_the_spread_shows_the_slowest() -> None:
    found = ranks_report([of_rank(10, 4.0), of_rank(12, 8.0), of_rank(11, 5.0)])
    assert [row["rank"] for row in found["ranks"]] == [0, 1, 2]
    assert [row["images_per_s"] for row in found["ranks"]] == [4.0, 8.0, 5.0]
    assert {row["io_retries"] for row in found["ranks"]} == {3}
    assert found["spread"]["images_per_s"] == {"min": 4.0, "median": 5.0, "max": 8.0}
    assert found["spread"]["wait_s"] == {"min": 0.4, "median": 0.5, "max": 0.8}


def test_sequences_add_up_modulo_2_to_the_256() -> None:
    three, two = f"{3:064x}", f"{2:064x}"
    digest = ranks_report([of_rank(1, 1.0, LAST), of_rank(1, 1.0, three)])["digest"]
    assert digest["sequence"] == two == add_sequences([LAST, three])
    assert digest["samples"] is None
    assert digest["epochs"] == [
        {"phase": "train", "epoch": 0, "samples": None, "sequence": two},
    ]


def test_ranks_that_did_not_stop_level_have_no_digest() -> None:
    reports = [of_rank(1, 1.0, LAST), of_rank(2, 1.0, LAST)]
    assert ranks_report(reports, level=False)["digest"] is None


def test_the_reports_themselves_stay_as_they_are() -> None:
    reports = [of_rank(10, 4.0, LAST), of_rank(12, 8.0, LAST)]
    ranks_report(reports)
    assert reports == [of_rank(10, 4.0, LAST), of_rank(12, 8.0, LAST)]


def with_val(report: dict[str, Any], images: int, sequence: str) -> dict[str, Any]:
    """The same with a phase that is broadcast."""
    val = {**report["phases"]["train"], "images": images, "split": "broadcast", "bad_samples": 4}
    report["phases"]["val"] = val
    report["images"] += images
    report["bad_samples"] += 4
    part = {"phase": "val", "epoch": 0, "samples": "cd", "sequence": sequence}
    report["digest"]["epochs"].append(part)
    report["digest"]["sequence"] = add_sequences([report["digest"]["sequence"], sequence])
    return report


def test_what_is_broadcast_counts_once() -> None:
    one, two, five = (f"{number:064x}" for number in (1, 2, 5))
    reports = [with_val(of_rank(10, 6.0, sequence), 20, five) for sequence in (one, two)]
    found = ranks_report(reports)
    assert found["digest"]["sequence"] == f"{1 + 2 + 5:064x}"
    assert [part["sequence"] for part in found["digest"]["epochs"]] == [f"{3:064x}", five]
    assert (found["images"], found["bad_samples"]) == (10 + 10 + 20, 1 + 1 + 4)
    assert {name: of["images"] for name, of in found["phases"].items()} == {"train": 20, "val": 20}
    # Ten of the thirty images of the second rank are its own.
    assert found["images_per_s"] == pytest.approx(6.0 + 2.0)


def test_a_broadcast_that_was_not_the_same_has_no_digest() -> None:
    one, five, six = (f"{number:064x}" for number in (1, 5, 6))
    reports = [with_val(of_rank(10, 6.0, one), 20, sequence) for sequence in (five, six)]
    found = ranks_report(reports)["digest"]
    assert found["sequence"] is None
    assert [part["sequence"] for part in found["epochs"]] == [f"{2:064x}", None]
