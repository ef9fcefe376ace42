import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.errors import ConfigError, PlanError
from dtsflow.report.sweep import SWEEP, SweepFolder


def wanted(*configs: str) -> list[tuple[list[str], str]]:
    return [([f"seed={config}"], config) for config in configs]


def test_known_jobs_keep_their_numbers_and_new_ones_get_the_next(workdir: Path) -> None:
    folder, jobs = SweepFolder.open("mine").enter(wanted("a", "b"))
    assert [job.number for job in jobs] == [0, 1]
    folder.write("dtsflow -m seed=a,b")
    folder, jobs = SweepFolder.open("mine").enter(wanted("c", "b", "a"))
    assert [job.number for job in jobs] == [2, 1, 0]
    assert [job.config for job in folder.jobs] == ["a", "b", "c"]
    assert workdir.is_dir()


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_each_wanted_job_has_a_number_of_its_own(first: list[str], second: list[str]) -> None:
    folder, _ = SweepFolder("mine", Path("nowhere"), ()).enter(wanted(*first))
    folder, jobs = folder.enter(wanted(*second))
    assert [job.config for job in jobs] == second
    assert len({job.number for job in jobs}) == len(second)
    assert [job.number for job in folder.jobs] == list(range(len(folder.jobs)))
    assert len(folder.jobs) == sum(max(first.count(c), second.count(c)) for c in "abc")


def test_a_failure_is_kept_until_the_job_begins_again(workdir: Path) -> None:
    folder, (job,) = SweepFolder.open("mine").enter(wanted("a"))
    folder.begin(job)
    assert folder.failure(job) == ""
    folder.fail(job, PlanError("it does\nnot fit"))
    assert folder.failure(job) == "PlanError: it does not fit"
    folder.begin(job)
    assert folder.failure(job) == ""
    assert (workdir / "runs" / "mine" / "0" / "overrides.yaml").read_text() == "- seed=a\n"


@pytest.mark.parametrize("text", ["{", "[]", '{"jobs": [{"number": 0}]}', '{"jobs": 3}'])
def test_a_damaged_list_is_refused_by_its_path(text: str, workdir: Path) -> None:
    (workdir / "runs" / "mine").mkdir(parents=True)
    (workdir / "runs" / "mine" / SWEEP).write_text(text)
    with pytest.raises(ConfigError, match=r"mine.sweep\.json is no list of a sweep's jobs"):
        SweepFolder.open("mine")


@pytest.mark.parametrize("left", ["report.json", "state.json"])
def test_a_run_and_a_sweep_cannot_share_a_folder(left: str, workdir: Path) -> None:
    (workdir / "runs" / "mine").mkdir(parents=True)
    (workdir / "runs" / "mine" / left).write_text(json.dumps({}))
    with pytest.raises(ConfigError, match="is the folder of a run"):
        SweepFolder.open("mine")


@pytest.mark.parametrize("name", ["../x", "/x", ""])
def test_a_sweep_stays_inside_runs(name: str) -> None:
    with pytest.raises(ConfigError, match="inside runs/"):
        SweepFolder.open(name)
