import json
from pathlib import Path
from typing import Any

import pytest

from dtsflow.errors import ConfigError
from dtsflow.report.compare import (
    BAD,
    MEMORY,
    SPEED,
    WAIT,
    compare,
    differing,
    less_is_better,
    settings_of,
)

Train = dict[str, Any]


def write_run(
    folder: Path, *, speed: float, wait: float = 0.5, config: str = "seed: 1\n", **more: Any
) -> Path:
    """The folder of a finished run of 100 images."""
    folder.mkdir(parents=True)
    report = {
        "images": 100,
        "images_per_s": speed,
        "stages": {"wait": wait},
        "peak_rss_bytes": 5000,
        "rss_before_bytes": 1000,
        "bad_samples": 0,
        **more,
    }
    (folder / "report.json").write_text(json.dumps(report))
    (folder / "config.yaml").write_text(config)
    return folder


def write_sweep(folder: Path, *jobs: list[str]) -> Path:
    """The folder of a sweep whose jobs have not begun."""
    folder.mkdir()
    listed = [{"number": n, "overrides": o, "config": str(n)} for n, o in enumerate(jobs)]
    (folder / "sweep.json").write_text(json.dumps({"command": "", "jobs": listed}))
    return folder


def test_only_the_keys_that_differ_count() -> None:
    one, two = settings_of(["a=1", "+b=2"]), settings_of(["a=1", "b=3", "~c"])
    assert one == {"a": "1", "b": "2"}
    assert differing([one, two]) == ["b", "~c"]
    assert differing([one]) == []


def test_figures_come_from_the_reports_and_the_best_run_comes_first(tmp_path: Path) -> None:
    slow = write_run(tmp_path / "slow", speed=50.0, wait=0.5, config="{seed: 1, name: slow}")
    fast = write_run(tmp_path / "fast", speed=200.0, wait=0.4, config="{seed: 2, name: fast}")
    found = compare([slow, fast])
    assert [row.folder for row in found.rows] == [fast, slow]
    assert found.keys == ["seed"]
    assert found.figures == [SPEED, WAIT, MEMORY]
    assert found.rows[0].figures == {SPEED: 200.0, WAIT: pytest.approx(0.8), MEMORY: 4000.0}
    assert [row.folder for row in compare([slow, fast], WAIT).rows] == [slow, fast]


def test_what_a_training_came_to_is_compared(tmp_path: Path) -> None:
    for number, accuracy in enumerate((0.5, 0.75)):
        train = {
            "losses": [{"epoch": 0, "loss": 2.0}, {"epoch": 1, "loss": 1.5}],
            "evaluations": [],
            "last": {"val": {"phase": "val", "epoch": 1, "accuracy": accuracy, "loss": 3.0}},
        }
        write_run(tmp_path / str(number), speed=1.0, train=train)
    found = compare([tmp_path / "0", tmp_path / "1"], "val accuracy")
    assert found.figures[3:] == ["train loss", "val accuracy", "val loss"]
    assert found.rows[0].folder.name == "1"
    assert found.rows[0].figures["train loss"] == 1.5
    assert less_is_better("val loss")
    assert not less_is_better("val accuracy")


def test_a_figure_that_is_no_number_is_left_out(tmp_path: Path) -> None:
    train = {"losses": [{"epoch": 0, "loss": float("nan")}], "evaluations": [], "last": {}}
    run = write_run(tmp_path / "a", speed=1.0, train=train)
    assert compare([run]).figures == [SPEED, WAIT, MEMORY]


def test_bad_samples_are_a_column_where_there_are_any(tmp_path: Path) -> None:
    good, bad = write_run(tmp_path / "a", speed=1.0), write_run(tmp_path / "b", speed=2.0)
    assert BAD not in compare([good, bad]).figures
    (bad / "report.json").unlink()
    bad.joinpath("config.yaml").unlink()
    bad.rmdir()
    write_run(bad, speed=2.0, bad_samples=3)
    assert compare([good, bad]).rows[0].figures[BAD] == 3.0


def test_jobs_of_a_sweep_differ_in_their_overrides(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path / "s", ["a=1", "x=0"], ["a=2", "x=0"], ["a=3", "x=0"])
    write_run(sweep / "1", speed=10.0)
    (sweep / "2").mkdir()
    (sweep / "2" / "error.json").write_text(json.dumps({"error": "PlanError", "message": "no"}))
    found = compare([sweep])
    assert found.keys == ["a"]
    told = [(row.settings["a"], row.state) for row in found.rows]
    assert told == [("2", ""), ("1", "not finished"), ("3", "failed: PlanError: no")]


def test_beside_other_runs_all_of_the_configuration_counts(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path / "s", ["a=1"])
    write_run(sweep / "0", speed=10.0, config="{a: 1, po: {operations: [{size: 3}, {}]}}")
    run = write_run(tmp_path / "r", speed=1.0, config="{a: 1, po: {operations: [{size: 4}, {}]}}")
    found = compare([sweep, run])
    assert found.keys == ["po.operations[0].size"]
    assert [row.settings[found.keys[0]] for row in found.rows] == ["3", "4"]


def test_a_sweep_of_which_nothing_is_finished_is_listed(tmp_path: Path) -> None:
    found = compare([write_sweep(tmp_path / "s", ["a=1"], ["a=2"])])
    assert found.figures == []
    assert len(found.rows) == 2


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="of no run and of no sweep"):
        compare([tmp_path])
    run = write_run(tmp_path / "a", speed=1.0)
    with pytest.raises(ConfigError, match="There is: images/s, wait, memory"):
        compare([run], "spede")
    (run / "report.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"report\.json is no report of a run"):
        compare([run])
    (run / "report.json").unlink()
    (run / "config.yaml").write_text("{")
    with pytest.raises(ConfigError, match=r"config\.yaml cannot be read"):
        compare([run])
