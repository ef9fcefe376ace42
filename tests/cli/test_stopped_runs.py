"""A run that was stopped, whatever by, goes on to the batches that are left."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dtsflow.arena.batch import Batch
from dtsflow.cli.main import main
from dtsflow.consumer.digest import Digesting
from dtsflow.pipeline import run as run_module
from dtsflow.pipeline.run_folder import RunFolder
from dtsflow.testing import jpeg, write_block_volume

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")

STATE = Path("runs/mine/state.json")
REPORT = Path("runs/mine/report.json")
PART = Path("runs/mine/part.1.json")
LOG = Path("runs/mine/rank0.log")
STEPS = 10


@pytest.fixture
def volume(workdir: Path) -> Path:
    images = [(jpeg(8, 8, seed=i), i % 3) for i in range(20)]
    return write_block_volume(workdir / "x.dts", [images[:12], images[12:]])


def words(volume: Path, *more: str) -> list[str]:
    crop = "po.operations=[{_target_: dtsflow.po.RandomResizedCrop, size: 8}]"
    base = [f"volume.path={volume}", crop, "consumer=digest", "name=mine"]
    return [*base, "batch_size=2", "epochs=3", "workers=2", *more]


Run = tuple[int, str, str]
Call = Callable[..., Run]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], volume: Path) -> Call:
    def calling(*more: str) -> Run:
        status = main(words(volume, *more))
        told = capsys.readouterr()
        return status, told.out, told.err

    return calling


def sequence(path: Path) -> int:
    return int(json.loads(path.read_text())["digest"]["sequence"], 16)


@pytest.fixture
def whole(call: Call) -> int:
    """The digest of the run that nothing stops."""
    assert call("name=whole")[0] == 0
    return sequence(Path("runs/whole/report.json"))


def state() -> tuple[int, int]:
    found = json.loads(STATE.read_text())
    return found["epoch"], found["step"]


class At:
    """Lets a test act while the consumer uses one batch: once, or each time."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, epoch: int, step: int, act: Callable[[], Any]
    ) -> None:
        take = Digesting.take
        self.acts = True

        def taking(sink: Digesting, batch: Batch) -> None:
            take(sink, batch)
            if self.acts and (batch.epoch, batch.step) == (epoch, step):
                self.acts = False
                act()

        monkeypatch.setattr(Digesting, "take", taking)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGINT"])
def test_a_signal_ends_the_run_after_the_batch_in_hand(
    name: str, call: Call, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = getattr(signal, name)
    before = signal.getsignal(number)
    At(monkeypatch, 1, 6, lambda: signal.raise_signal(number))
    status, out, told = call()
    assert status == 128 + number
    assert told == (
        f"dtsflow: stopped by {name} at epoch 1, step 7 of {STEPS}; go on with resume=auto\n"
    )
    assert "34 in 17 steps" in out
    assert state() == (1, 7)
    assert not REPORT.exists()
    assert signal.getsignal(number) is before
    status, out, told = call("resume=auto", "workers=3", "reader.io_threads=1")
    assert (status, told) == (0, "")
    assert out.startswith(f"going on at epoch 1, step 7 of {STEPS}\n")
    assert f"went on          at epoch 1, step 7 of {STEPS}" in out
    report = json.loads(REPORT.read_text())
    assert report["resumed_from"] == {"phase": "train", "epoch": 1, "step": 7}
    assert report["steps"] == 3 * STEPS - 17
    assert (sequence(PART) + sequence(REPORT)) % 2**256 == whole
    assert not STATE.exists()
    log = LOG.read_text()
    assert "epoch 1: 7 of 10 steps" in log
    assert "epoch 1: 3 of 3 steps" in log


def test_a_run_may_be_stopped_again_and_again(
    call: Call, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [(0, 0), (0, 1), (0, STEPS - 1), (1, 3), (2, 8)]
    for epoch, step in places:
        with monkeypatch.context() as patch:
            At(patch, epoch, step, lambda: signal.raise_signal(signal.SIGTERM))
            assert call("resume=auto")[0] == 143
        assert state() == ((epoch, step + 1) if step < STEPS - 1 else (epoch + 1, 0))
    assert call("resume=auto")[0] == 0
    parts = [Path(f"runs/mine/part.{number}.json") for number in range(1, len(places) + 1)]
    assert sum(sequence(path) for path in (*parts, REPORT)) % 2**256 == whole


def test_a_signal_with_the_last_batch_leaves_a_finished_run(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    At(monkeypatch, 2, STEPS - 1, lambda: signal.raise_signal(signal.SIGTERM))
    status, _, told = call()
    assert (status, told) == (0, "")
    assert REPORT.exists()
    assert not STATE.exists()


def fail() -> None:
    raise OSError("the disk of the consumer is full")


def test_a_failed_run_goes_on_with_the_batch_that_failed(
    call: Call, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivered = 0
    take = Digesting.take

    def taking(sink: Digesting, batch: Batch) -> None:
        nonlocal delivered
        if (batch.epoch, batch.step) == (1, 2) and not delivered:
            delivered = sum(part.sequence for part in sink._parts.values())
            fail()
        take(sink, batch)

    monkeypatch.setattr(Digesting, "take", taking)
    status, _, told = call()
    assert status == 1
    assert "disk of the consumer" in told
    assert state() == (1, 2)
    assert call("resume=auto")[0] == 0
    assert (delivered + sequence(REPORT)) % 2**256 == whole


def test_each_epochs_end_is_kept(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    At(monkeypatch, 1, 0, lambda: seen.append(state()))
    assert call()[0] == 0
    assert seen == [(1, 0)]


def test_a_long_epoch_is_kept_now_and_then(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(run_module, "SAVE_S", 0.0)
    At(monkeypatch, 0, 5, lambda: seen.append(state()))
    assert call()[0] == 0
    assert seen == [(0, 5)]


def test_a_state_that_cannot_be_kept_does_not_end_the_run(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = RunFolder.write

    def full(folder: RunFolder, name: str, text: str, **options: Any) -> None:
        if name == STATE.name:
            raise OSError("no space left")
        write(folder, name, text, **options)

    monkeypatch.setattr(RunFolder, "write", full)
    assert call()[0] == 0
    assert "state cannot be written: no space left" in LOG.read_text()
    At(monkeypatch, 1, 2, lambda: signal.raise_signal(signal.SIGTERM))
    status, _, told = call()
    assert status == 1
    assert "no space left" in told


def stop_at(monkeypatch: pytest.MonkeyPatch, call: Call, epoch: int, step: int) -> None:
    with monkeypatch.context() as patch:
        At(patch, epoch, step, lambda: signal.raise_signal(signal.SIGTERM))
        assert call()[0] == 143


def test_without_resume_a_stopped_run_is_begun_anew(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(monkeypatch, call, 1, 6)
    Path("runs/mine/bad_samples.jsonl").write_text("{}\n")
    log = LOG.read_text()
    seen = []
    At(monkeypatch, 0, 0, lambda: seen.append(STATE.exists()))
    assert call("seed=5")[0] == 0  # and an edited configuration is no obstacle
    assert seen == [False]
    assert json.loads(REPORT.read_text())["resumed_from"] is None
    assert log not in LOG.read_text()
    assert not PART.exists()
    assert not Path("runs/mine/bad_samples.jsonl").exists()


def test_auto_begins_anew_where_nothing_is_to_go_on_with(call: Call, whole: int) -> None:
    for _ in range(2):  # no folder; a finished run
        assert call("resume=auto")[0] == 0
        assert sequence(REPORT) == whole
        assert json.loads(REPORT.read_text())["resumed_from"] is None
    assert Path("runs/mine.1/report.json").exists()


def test_an_edited_run_is_refused_and_left_as_it_was(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(monkeypatch, call, 1, 6)
    kept = {path: path.read_bytes() for path in Path("runs/mine").iterdir()}
    status, out, told = call("resume=auto", "seed=5", "tail=drop")
    assert (status, out) == (2, "")
    assert "runs/mine/state.json is the state of a run with another seed, tail:" in told
    assert told.count("\n") == 1
    assert {path: path.read_bytes() for path in Path("runs/mine").iterdir()} == kept


def test_a_broken_state_is_refused_by_name(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_at(monkeypatch, call, 1, 6)
    STATE.write_text(STATE.read_text()[:50])
    status, _, told = call("resume=auto")
    assert status == 2
    assert "runs/mine/state.json is no state of a run" in told
    assert call("resume=never")[0] == 0


@pytest.mark.parametrize("path", [STATE.parent, STATE])
def test_a_run_goes_on_from_a_path_under_its_own_name_or_another(
    path: Path, call: Call, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(monkeypatch, call, 1, 6)
    first = sequence(PART)
    kept = STATE.read_bytes()
    assert call(f"resume={path}", "name=other")[0] == 0
    assert (first + sequence(Path("runs/other/report.json"))) % 2**256 == whole
    assert STATE.read_bytes() == kept
    assert call(f"resume={path}")[0] == 0
    assert (first + sequence(REPORT)) % 2**256 == whole
    assert "epoch 1: 7 of 10 steps" in LOG.read_text()
    status, _, told = call(f"resume={path}")
    assert status == 2
    assert "A finished run has no state" in told


def test_max_steps_counts_the_steps_of_this_process(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(monkeypatch, call, 1, 6)
    assert call("resume=auto", "max_steps=5")[0] == 0
    assert json.loads(REPORT.read_text())["steps"] == 5


# The consumer says that it has batch (1, 6), and holds it till a signal was handled.
SCRIPT = """
import queue, sys, threading
from dtsflow.cli import entry, run
from dtsflow.consumer.digest import Digesting
from dtsflow.reader import block_io
from dtsflow.station.double_buffer import DoubleBuffer
handled = queue.SimpleQueue()
handle, take = run.Signals._came, Digesting.take

def handling(self, number, frame):
    handle(self, number, frame)
    handled.put(number)

run.Signals._came = handling
"""

HOLDING = """
def taking(self, batch):
    take(self, batch)
    if (batch.epoch, batch.step) == (1, 6):
        print("ready", flush=True)
        handled.get()

Digesting.take = taking
"""

# The disk never answers: the first batch never comes.
WAITING = """
never = threading.Event()

def slow(*arguments, stop):
    while not stop():
        never.wait(0.05)
    return False

block_io.read_into = slow
wait = DoubleBuffer.wait

def waiting(self, *arguments):
    print("ready", flush=True)
    return wait(self, *arguments)

DoubleBuffer.wait = waiting
"""

END = "sys.exit(entry.main())"


def start(script: str, arguments: list[str]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT + script + END, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line == "ready\n":
            return process
    raise AssertionError(process.communicate()[1])


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGINT", "SIGKILL"])
def test_a_process_that_a_signal_ends_goes_on_in_a_new_one(
    name: str, volume: Path, whole: int
) -> None:
    number = getattr(signal, name)
    killed = number == signal.SIGKILL
    with start(HOLDING, words(volume)) as process:
        process.send_signal(number)
        assert process.wait(timeout=10) == (-number if killed else 128 + number)
        assert process.stderr is not None
        told = process.stderr.read()
    expected = f"dtsflow: stopped by {name} at epoch 1, step 7 of 10; go on with resume=auto\n"
    assert told == ("" if killed else expected)
    assert state() == ((1, 0) if killed else (1, 7))
    new = [sys.executable, "-m", "dtsflow", *words(volume, "resume=auto", "workers=1")]
    subprocess.run(new, check=True, capture_output=True)
    report = json.loads(REPORT.read_text())
    if killed:
        assert report["resumed_from"] == {"phase": "train", "epoch": 1, "step": 0}
        assert report["steps"] == 2 * STEPS
    else:
        assert (sequence(PART) + sequence(REPORT)) % 2**256 == whole


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGINT"])
@pytest.mark.parametrize("mode", ["resident", "streaming"])
def test_a_signal_while_no_batch_comes_ends_the_process_within_two_seconds(
    name: str, mode: str, volume: Path
) -> None:
    number = getattr(signal, name)
    with start(WAITING, words(volume, f"reader.mode={mode}")) as process:
        process.send_signal(number)
        try:
            assert process.wait(timeout=2) == 128 + number
        finally:
            process.kill()
        assert process.stderr is not None
        assert f"stopped by {name} at epoch 0, step 0 of 10" in process.stderr.read()
    assert not STATE.exists()  # the beginning is where it begins anyway
    assert not REPORT.exists()
