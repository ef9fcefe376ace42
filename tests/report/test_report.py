import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest

from dtsflow import __version__
from dtsflow.config.compose import compose
from dtsflow.pipeline.build import build
from dtsflow.pipeline.plan import Plan
from dtsflow.pipeline.planner import plan_run
from dtsflow.ranks.group import Rank
from dtsflow.report import report as module
from dtsflow.report.counters import Counters, PhaseCounters
from dtsflow.report.report import report, versions
from dtsflow.station.engine import StageTimes
from dtsflow.testing import write_small_set
from dtsflow.volume.format.header import Kind


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    path = write_small_set(tmp_path / "mnist_test.dts", Kind.MNIST, 10)
    values = compose([f"volume.path={path}", "batch_size=4", "epochs=3", "workers=2"]).values
    pipeline = build(values)
    return plan_run(pipeline, Rank(0, 1))


def counters() -> Counters:
    return Counters(
        opened=10.0,
        rss_before=77,
        first_asked=11.0,
        first_batch=11.5,
        last_batch=13.0,
        waited_s=0.75,
        images=20,
        steps=5,
        phases={"train": PhaseCounters(bad_samples=2)},
    )


def test_every_promised_key_says_what_was_counted(plan: Plan) -> None:
    told = report(plan, counters(), StageTimes(1, 2, 3), {}, "dtsflow a=b")
    assert told["images"] == 20
    assert told["steps"] == 5
    assert told["bad_samples"] == 2
    assert told["images_per_s"] == 10.0
    assert told["first_batch_s"] == 1.5
    assert told["epochs"] == 3
    assert told["steps_per_epoch"] == 3
    assert told["workers"] == 2
    assert told["rss_before_bytes"] == 77
    assert told["peak_rss_bytes"] > 1 << 20
    assert told["plan_bytes"] == plan.total_bytes
    assert told["plan_digest"] == plan.digest()
    assert told["stages"].items() >= {"read": 1, "decode": 2, "po": 3, "wait": 0.75}.items()
    assert told["digest"] is None
    assert told["command"] == "dtsflow a=b"
    assert json.loads(json.dumps(told)) == told


def test_a_consumer_adds_its_results_and_may_fill_the_digest(plan: Plan) -> None:
    results = {"digest": {"samples": "ab"}, "sheet": "s.png"}
    told = report(plan, counters(), StageTimes(), results, "")
    assert told["digest"] == {"samples": "ab"}
    assert told["sheet"] == "s.png"


def test_a_consumer_cannot_hide_what_the_run_counted(plan: Plan) -> None:
    with pytest.raises(AssertionError, match="images"):
        report(plan, counters(), StageTimes(), {"images": 3}, "")


def test_a_run_without_a_batch_has_a_report_too(plan: Plan) -> None:
    told = report(plan, Counters(opened=1e9, rss_before=0), StageTimes(), {}, "")
    assert told["images_per_s"] == told["first_batch_s"] == 0


def test_versions_name_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert versions()["dtsflow"] == __version__
    assert versions()["numpy"] == np.__version__

    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(module, "version", absent)
    monkeypatch.setattr(module, "turbo_version", lambda: None)
    found = versions()
    assert found["numpy"] == "not installed"
    assert found["libjpeg-turbo"] == "none"
    assert found["python"].startswith("3.")
