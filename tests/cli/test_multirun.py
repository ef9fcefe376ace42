"""`dtsflow --multirun`: each combination is a run, and no job takes others with it."""

import gc
import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dtsflow.arena.batch import Batch
from dtsflow.cli.main import main
from dtsflow.consumer.consumer import Counting
from dtsflow.consumer.digits import DigitsLearner
from dtsflow.report.report import resident_bytes
from dtsflow.testing import jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import Kind

SWEEP = Path("runs/mine")
OPEN_FILES = Path("/proc/self/fd")  # of this process, on Linux

Called = tuple[int, str, str]
Call = Callable[..., Called]


@pytest.fixture
def volume(workdir: Path) -> Path:
    images = [(jpeg(8, 8, seed=i), i % 3) for i in range(20)]
    return write_block_volume(workdir / "x.dts", [images])


def words(volume: Path, *more: str) -> list[str]:
    crop = "po.operations=[{_target_: dtsflow.po.RandomResizedCrop, size: 8}]"
    return ["--multirun", f"volume.path={volume}", crop, "name=mine", "batch_size=4", *more]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], volume: Path) -> Call:
    def calling(*more: str) -> Called:
        status = main(words(volume, *more))
        told = capsys.readouterr()
        return status, told.out, told.err

    return calling


def report(number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SWEEP / str(number) / "report.json").read_text())
    return found


def finished() -> list[str]:
    return sorted(path.parent.name for path in SWEEP.glob("*/report.json"))


def test_each_combination_is_a_run_in_its_folder(call: Call) -> None:
    status, told, errors = call("workers=1,2", "seed=3,4", "consumer=digest")
    assert (status, errors) == (0, "")
    assert finished() == ["0", "1", "2", "3"]
    assert [report(n)["workers"] for n in range(4)] == [1, 1, 2, 2]
    digests = [report(n)["digest"]["sequence"] for n in range(4)]
    assert digests[0] == digests[2] != digests[1] == digests[3]
    listed = json.loads((SWEEP / "sweep.json").read_text())
    assert [job["number"] for job in listed["jobs"]] == [0, 1, 2, 3]
    assert listed["jobs"][2]["overrides"][-3:] == ["workers=2", "seed=3", "consumer=digest"]
    assert listed["command"].startswith("dtsflow --multirun volume.path=")
    assert "- workers=2\n- seed=3\n" in (SWEEP / "2" / "overrides.yaml").read_text()
    assert report(2)["command"].endswith("name=mine/2")
    assert "[3/4] runs/mine/2  workers=2 seed=3\n" in told
    assert "run          workers  seed  images/s  wait" in told


def test_a_sweep_takes_the_experiments_name(
    capsys: pytest.CaptureFixture[str], workdir: Path
) -> None:
    path = write_small_set(workdir / "mnist_test.dts", Kind.MNIST, 20)
    base = [f"volume.path={path}", f"phases.val.volume.path={path}"]
    assert main(["-m", "+experiment=mnist", *base, "seed=1,2"]) == 0
    assert Path("runs/mnist-sweep/1/report.json").is_file()
    assert "seed" in capsys.readouterr().out


def test_a_job_that_fails_does_not_lose_the_others(call: Call) -> None:
    status, told, errors = call("lanes=3,1,2", "workers=1")
    assert status == 1
    assert finished() == ["1", "2"]
    failure = json.loads((SWEEP / "0" / "error.json").read_text())
    assert failure["error"] == "PlanError"
    assert "lanes=3 does not divide" in failure["message"]
    assert "traceback" not in failure
    assert errors.splitlines()[0] == "dtsflow: 1 of 3 jobs failed; the same command tries again"
    assert errors.splitlines()[1].startswith("  runs/mine/0: PlanError: lanes=3 does not")
    assert "failed: PlanError: lanes=3" in told


def test_an_error_of_somebody_elses_code_is_kept_with_its_place(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Counting.take

    def taking(sink: Counting, batch: Batch) -> None:
        if batch.epoch == 1:
            raise ZeroDivisionError("their bug")
        take(sink, batch)

    monkeypatch.setattr(Counting, "take", taking)
    assert call("epochs=2,1")[0] == 1
    assert finished() == ["1"]
    failure = json.loads((SWEEP / "0" / "error.json").read_text())
    assert failure["error"] == "ZeroDivisionError"
    assert "in taking" in failure["traceback"]


def test_a_loss_that_is_no_number_fails_its_job_only(
    capsys: pytest.CaptureFixture[str], workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    step = DigitsLearner.step
    monkeypatch.setattr(
        DigitsLearner, "step", lambda own, batch: step(own, batch) if batch.epoch == 0 else math.nan
    )
    path = write_small_set(workdir / "mnist_test.dts", Kind.MNIST, 100)
    base = [f"volume.path={path}", f"phases.val.volume.path={path}", "name=mine", "workers=1"]
    assert main(["--multirun", "+experiment=mnist_train", *base, "epochs=1,2"]) == 1
    assert finished() == ["0"]
    told = capsys.readouterr()
    assert "runs/mine/1: TrainError: the loss is nan at epoch 1" in told.err
    assert "train loss" in told.out
    assert "val accuracy" in told.out


def test_the_same_command_does_only_what_is_left(call: Call) -> None:
    assert call("workers=1,2")[0] == 0
    before = [path.stat().st_mtime_ns for path in sorted(SWEEP.glob("*/report.json"))]
    status, told, _ = call("workers=1,2")
    assert status == 0
    assert told.startswith("runs/mine/: 2 jobs, 2 finished\n")
    assert "[1/" not in told
    status, told, _ = call("workers=1,2,3")
    assert status == 0
    assert "[1/1] runs/mine/2  workers=3" in told
    assert [path.stat().st_mtime_ns for path in sorted(SWEEP.glob("*/report.json"))][:2] == before


def test_where_a_job_goes_on_makes_it_no_other(call: Call) -> None:
    assert call("seed=1,2", "resume=never")[0] == 0
    assert call("seed=1,2", "resume=auto")[1].startswith("runs/mine/: 2 jobs, 2 finished\n")


def test_a_changed_configuration_is_another_job(call: Call, workdir: Path) -> None:
    (workdir / "conf" / "reader").mkdir(parents=True)
    ours = workdir / "conf" / "reader" / "ours.yaml"
    for threads in (1, 2):
        ours.write_text(f"_target_: dtsflow.reader.Reader\nio_threads: {threads}\n")
        assert call("reader=ours")[0] == 0
    assert finished() == ["0", "1"]
    assert "io_threads: 1" in (SWEEP / "0" / "config.yaml").read_text()


def test_jobs_that_are_alike_are_all_run(call: Call) -> None:
    assert call("seed=1,1,1")[0] == 0
    assert finished() == ["0", "1", "2"]
    assert call("seed=1,1,1")[1].startswith("runs/mine/: 3 jobs, 3 finished\n")


def test_a_job_that_failed_is_tried_again(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Counting, "take", _fail)
        assert call("seed=1,2")[0] == 1
    assert finished() == []
    assert call("seed=1,2")[0] == 0
    assert finished() == ["0", "1"]
    assert not (SWEEP / "0" / "error.json").exists()


def _fail(_sink: Counting, _batch: Batch) -> None:
    raise OSError("the disk of the consumer is full")


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_the_job_in_hand_and_the_sweep(
    name: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = getattr(signal, name)
    take = Counting.take

    def taking(sink: Counting, batch: Batch) -> None:
        take(sink, batch)
        if (SWEEP / "1").exists() and batch.step == 2:
            signal.raise_signal(number)

    sweep = ("seed=1,2,3", "resume=auto")
    with monkeypatch.context() as patch:
        patch.setattr(Counting, "take", taking)
        status, _, errors = call(*sweep)
    assert status == 128 + number
    assert f"stopped by {name} at epoch 0, step 3 of 5" in errors
    assert "dtsflow: 2 jobs of runs/mine/ left; the same command goes on with the sweep" in errors
    assert finished() == ["0"]
    assert not (SWEEP / "2").exists()
    status, told, _ = call(*sweep)
    assert status == 0
    assert "going on at epoch 0, step 3 of 5" in told
    assert report(1)["steps"] == 2
    assert report(2)["steps"] == 5


KILLED = """
import os, sys
from dtsflow.cli.main import main
from dtsflow.consumer.consumer import Counting
take = Counting.take
def taking(sink, batch):
    if os.path.exists("runs/mine/1") and batch.step == 2:
        os.kill(os.getpid(), 9)
    take(sink, batch)
Counting.take = taking
main(sys.argv[1:])
"""


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_a_killed_sweep_continues(call: Call, volume: Path) -> None:
    command = [sys.executable, "-c", KILLED, *words(volume, "seed=1,2,3")]
    killed = subprocess.run(command, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert finished() == ["0"]
    first = (SWEEP / "0" / "report.json").stat().st_mtime_ns
    assert call("seed=1,2,3")[0] == 0
    assert finished() == ["0", "1", "2"]
    assert (SWEEP / "0" / "report.json").stat().st_mtime_ns == first


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["seed=1,-1"], "seed: Input should be greater than or equal to 0"),
        (["sed=1,2"], "Did you mean 'seed'?"),
        (["name=a,b"], "a sweep has one folder"),
        (["name=../x", "seed=1,2"], "must name a folder inside runs/"),
    ],
)
def test_a_wrong_job_is_refused_before_the_first_runs(
    more: list[str], message: str, call: Call
) -> None:
    status, out, told = call(*more)
    assert (status, out) == (2, "")
    assert message in told
    assert not Path("runs").exists()


def test_a_runs_own_folder_is_no_sweeps(call: Call, volume: Path) -> None:
    assert main(words(volume)[1:]) == 0
    status, _, told = call("seed=1,2")
    assert status == 2
    assert "runs/mine is the folder of a run" in told


def test_a_launcher_of_ranks_is_refused(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMI_SIZE", "2")
    status, _, told = call("seed=1,2")
    assert status == 1
    assert "PMI_SIZE says that 2 processes were started" in told


def test_twenty_jobs_give_back_what_they_took(call: Call) -> None:
    held = []
    for last in (3, 21):
        assert call(f"seed=range(1,{last})", "workers=2")[0] == 0
        gc.collect()
        files = len([*OPEN_FILES.iterdir()]) if OPEN_FILES.is_dir() else 0
        held.append((resident_bytes(), threading.active_count(), files))
    assert len(finished()) == 20
    (before, *counts), (after, *later) = held
    assert later == counts
    # A job that was kept would keep its block of 16 MiB.
    assert after - before < 16 << 20, f"{before:,} bytes after 2 jobs, {after:,} after 20"


def test_a_launcher_plugin_of_hydra_runs_the_jobs(call: Call) -> None:
    status, told, errors = call("lanes=1,3", "hydra/launcher=basic")
    assert status == 1
    assert finished() == ["0"]
    assert "images/s" in told
    assert "20 images" in (SWEEP / "0" / "output.txt").read_text()
    assert errors.startswith("runs/mine/0: done\nruns/mine/1: PlanError: lanes=3 does not divide")
    assert sorted(path.name for path in SWEEP.iterdir()) == ["0", "1", "sweep.json"]


def test_joblib_runs_jobs_at_the_same_time(call: Call) -> None:
    pytest.importorskip("joblib")
    sweep = ("seed=1,2,3", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    assert call(*sweep)[0] == 0
    assert finished() == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("hydra/launcher=jobli", "install dtsflow[sweep]"),
        ("hydra.launcher.n_jobs=2", "hydra.launcher.n_jobs"),
    ],
)
def test_a_launcher_that_is_not_there_is_refused(more: str, message: str, call: Call) -> None:
    status, _, told = call("seed=1,2", more)
    assert status in (1, 2)
    assert message in told
    assert not (SWEEP / "0").exists()
