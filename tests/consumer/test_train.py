import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtsflow.arena.batch import Batch
from dtsflow.cli.main import main
from dtsflow.consumer.consumer import PhaseSetting, Resumable, Setting, Start
from dtsflow.consumer.train import Train, Training
from dtsflow.errors import ConfigError, TrainError
from dtsflow.testing import write_small_set
from dtsflow.volume.format.header import Kind

PHASES = {"train": PhaseSetting(0), "val": PhaseSetting(1)}


class Adder:
    """A learner whose whole state is what it has seen; the loss is its sum."""

    def __init__(self) -> None:
        self.total = 0

    def step(self, batch: Batch) -> float:
        self.total += batch.labels.sum()
        return float(self.total)

    def evaluate(self, batch: Batch) -> Mapping[str, float]:
        return {"label": float(batch.labels[batch.valid].sum())}

    def state(self) -> bytes:
        return str(int(self.total)).encode()

    def load(self, state: bytes) -> None:
        self.total = int(state)


class Adding:
    def init(self, setting: Setting) -> Adder:
        assert list(setting.phases) == ["train", "val"]
        return Adder()


class Diverging(Adding):
    def init(self, setting: Setting) -> Adder:
        made = super().init(setting)
        made.total = float("nan")  # type: ignore[assignment]  # as a bad rate makes it
        return made


def batch_of(phase: str, epoch: int, step: int, labels: list[int]) -> Batch:
    rows = np.array(labels, np.int32)
    pixels = np.zeros((len(rows), 1, 1, 1), np.float32)
    return Batch(
        images=pixels,
        padded=pixels,
        labels=rows,
        valid=rows >= 0,
        sample_ids=rows.astype(np.int64),
        phase=phase,
        epoch=epoch,
        step=step,
        first_row=0,
        zone=0,
    )


def opened(folder: Path | None, start: Start | None = None) -> Training:
    return Train(Adding()).open(Setting(folder, PHASES, start=start))


def test_one_phase_trains_and_the_others_are_evaluated(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    assert isinstance(sink, Resumable)
    sink.take(batch_of("train", 0, 0, [1, 2]))
    sink.take(batch_of("train", 0, 1, [3, 4]))
    assert sink.finish("train", 0) == "loss 6.5000"
    sink.take(batch_of("val", 0, 0, [5, 6]))
    sink.take(batch_of("val", 0, 1, [7, -1]))
    assert sink.finish("val", 0) == "label 6.0000"
    evaluation = {"phase": "val", "epoch": 0, "label": 6.0}
    assert sink.results()["train"] == {
        "losses": [{"epoch": 0, "loss": 6.5}],
        "evaluations": [evaluation],
        "last": {"val": evaluation},
    }
    lines = [json.loads(line) for line in (tmp_path / "losses.jsonl").read_text().splitlines()]
    assert lines == [
        {"phase": "train", "epoch": 0, "step": 0, "loss": 3.0},
        {"phase": "train", "epoch": 0, "step": 1, "loss": 10.0},
        evaluation,
    ]


def test_each_evaluation_is_of_its_own_batches() -> None:
    sink = opened(None)
    for epoch, label in enumerate((5, 8)):
        sink.take(batch_of("val", epoch, 0, [label, label]))
        assert sink.finish("val", epoch) == f"label {label:.4f}"


def test_a_loss_that_is_no_number_ends_the_training_by_its_place() -> None:
    sink = Train(Diverging()).open(Setting(None, PHASES))
    with pytest.raises(TrainError, match="nan at epoch 2, step 7"):
        sink.take(batch_of("train", 2, 7, [1]))


def test_it_goes_on_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    def take(sink: Training, phase: str, *steps: int) -> None:
        for step in steps:
            sink.take(batch_of(phase, 0, step, [step, 10]))

    for name in ("whole", "part"):
        (tmp_path / name).mkdir()
    whole = opened(tmp_path / "whole")
    take(whole, "train", 0, 1, 2)
    whole.finish("train", 0)
    take(whole, "val", 0, 1, 2)
    whole.finish("val", 0)
    stopped = opened(tmp_path / "part")
    take(stopped, "train", 0, 1, 2)
    stopped.finish("train", 0)
    take(stopped, "val", 0, 1)
    start = Start("val", 0, 2, tmp_path / "part")
    stopped.save(start)
    take(stopped, "val", 2)  # done before the kill, and lost by it
    stopped.finish("val", 0)
    again = opened(tmp_path / "part", start)
    take(again, "val", 2)
    again.finish("val", 0)
    assert again.results() == whole.results()
    texts = [(tmp_path / name / "losses.jsonl").read_text() for name in ("whole", "part")]
    assert texts[0] == texts[1]


def test_what_was_kept_for_other_places_goes_when_the_state_has_moved_on(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    places = [Start("train", 0, step) for step in (1, 2)]
    sink.save(places[0])
    sink.save(places[1])
    assert len(list(tmp_path.glob("learner.*"))) == 2
    sink.saved(places[1])
    assert [path.name for path in tmp_path.glob("learner.*")] == ["learner.train.0.2.bin"]
    opened(tmp_path)  # anew
    assert not list(tmp_path.glob("learner.*"))


def test_a_missing_or_damaged_learner_is_refused_by_its_path(tmp_path: Path) -> None:
    start = Start("train", 0, 1, tmp_path)
    with pytest.raises(ConfigError, match=r"no learner for train, epoch 0, step 1 .*0\.1\.bin"):
        opened(tmp_path, start)
    opened(tmp_path).save(start)
    path = tmp_path / "learner.train.0.1.bin"
    path.write_bytes(path.read_bytes() + b"7")
    with pytest.raises(ConfigError, match=r"0\.1\.bin is damaged"):
        opened(tmp_path, start)
    path.write_bytes(b"something else")
    with pytest.raises(ConfigError, match=r"0\.1\.bin is no learner"):
        opened(tmp_path, start)


SCRIPT = """
import os, signal, sys
from dtsflow.cli.main import main
from dtsflow.consumer import digits
step = digits.DigitsLearner.step
left = int(sys.argv.pop(1))
def counted(self, batch):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, batch)
digits.DigitsLearner.step = counted
from dtsflow.pipeline import run
run.SAVE_S = 0.0  # after each batch, as a long epoch would
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def words(workdir: Path) -> list[str]:
    pytest.importorskip("torch")
    train = write_small_set(workdir / "mnist_train.dts", Kind.MNIST, 90)
    val = write_small_set(workdir / "mnist_test.dts", Kind.MNIST, 20, seed=1)
    paths = [f"volume.path={train}", f"phases.val.volume.path={val}"]
    sizes = ["batch_size=16", "phases.val.batch_size=8", "consumer.step.width=4", "epochs=2"]
    return ["+experiment=mnist_train", *paths, *sizes]


def test_killed_and_gone_on_with_the_losses_are_the_same(words: list[str]) -> None:
    assert main([*words, "name=whole"]) == 0
    command = [sys.executable, "-c", SCRIPT]
    again = [*words, "name=killed", "resume=auto"]
    done = subprocess.run([*command, "8", *again], capture_output=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    done = subprocess.run([*command, "-1", *again], capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert b"going on at train, epoch 1, step 2" in done.stdout
    losses = [Path(f"runs/{name}/losses.jsonl").read_text() for name in ("whole", "killed")]
    assert losses[0] == losses[1]
    reports = [json.loads(Path(f"runs/{n}/report.json").read_text()) for n in ("whole", "killed")]
    assert reports[0]["train"] == reports[1]["train"]
    assert [p.name for p in Path("runs/killed").glob("learner.*")] == ["learner.train.2.0.bin"]


def test_pixels_that_digits_cannot_take_are_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "po.operations[0].dtype=FP16"]) == 2
    assert "takes FP32 pixels" in capsys.readouterr().err


def test_the_reference_digits_are_learned(reference: Path, workdir: Path) -> None:
    pytest.importorskip("torch")
    for name, ids in (("train", range(7000)), ("val", range(7000, 10_000))):
        (workdir / f"{name}.txt").write_text("\n".join(map(str, ids)))
    path = reference / "mnist_test.dts"
    words = [f"volume.path={path}", f"phases.val.volume.path={path}", "epochs=2"]
    words += [f"+phases.{name}.reader.subset.ids={name}.txt" for name in ("train", "val")]
    assert main(["+experiment=mnist_train", *words]) == 0
    report: dict[str, Any] = json.loads(Path("runs/mnist_train/report.json").read_text())
    assert report["train"]["last"]["val"]["accuracy"] > 0.99


def test_pixels_whose_size_changes_are_refused_by_digits(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    size = "{_target_: dtsflow.po.Schedule, points: [[0, 24], [1, 28]]}"
    normalize = "{_target_: dtsflow.po.Normalize, preset: mnist}"
    crop = f"{{_target_: dtsflow.po.RandomCrop, size: {size}}}"
    assert main([*words, f"po.operations=[{crop}, {normalize}]"]) == 2
    assert "Digits takes pixels of one size, and a schedule changes it" in capsys.readouterr().err
