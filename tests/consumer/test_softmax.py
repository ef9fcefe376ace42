import io
import json
import sys
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dtsflow
from dtsflow.arena.batch import Batch
from dtsflow.arena.device import open_device
from dtsflow.cli.main import main
from dtsflow.consumer import softmax
from dtsflow.consumer.consumer import PhaseSetting, Setting
from dtsflow.consumer.softmax import Softmax, SoftmaxLearner
from dtsflow.errors import ConfigError, MissingPartError
from dtsflow.spec import ImageSpec
from dtsflow.tensor.dtype import DType
from dtsflow.testing import write_small_set
from dtsflow.volume.format.header import Kind

NAMES = ("a", "b", "c")
SHAPE = (2, 3, 1)


def setting(**phases: ImageSpec | PhaseSetting) -> Setting:
    made = {
        name: one if isinstance(one, PhaseSetting) else PhaseSetting(0, NAMES, None, one, 3)
        for name, one in phases.items()
    }
    return Setting(None, made)


def learner(lr: float = 0.1) -> SoftmaxLearner:
    return Softmax(lr).init(setting(train=ImageSpec(*SHAPE, DType.FP32)))


def batch_of(images: Any, labels: Any) -> Batch:
    valid = np.asarray(labels) >= 0
    return Batch(
        images=images,
        padded=images,
        labels=labels,
        valid=valid,
        sample_ids=np.arange(len(valid)),
        phase="train",
        epoch=0,
        step=0,
        first_row=0,
        zone=0,
    )


def drawn(seed: int, dtype: type = np.float32, rows: int = 7) -> Batch:
    rng = np.random.default_rng(seed)
    images: npt.NDArray[Any] = rng.normal(size=(rows, *SHAPE)).astype(dtype)
    labels = rng.integers(0, 3, rows).astype(np.int32)
    labels[2::4] = -1
    return batch_of(images, labels)


def by_the_book(
    weights: npt.NDArray[np.float64], batch: Batch, lr: float
) -> tuple[float, npt.NDArray[np.float64]]:
    """Loss and new weights, the bias as a last column, one valid row after another."""
    gradient, loss, count = np.zeros_like(weights), 0.0, int(batch.valid.sum())
    for image, label in zip(batch.images[batch.valid], batch.labels[batch.valid], strict=True):
        x = np.append(image.astype(np.float64).ravel(), 1.0)
        powers = np.exp(weights @ x)
        probabilities = powers / powers.sum()
        loss -= np.log(probabilities[label])
        gradient += np.outer(probabilities - np.eye(len(weights))[label], x)
    return loss / count, weights - lr * gradient / count


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_steps_are_those_of_the_formulas_and_missing_rows_count_for_nothing(dtype: type) -> None:
    made, weights = learner(), np.zeros((3, 7))
    for seed in range(4):
        batch = drawn(seed, dtype)
        assert batch.valid.sum() == 5
        wanted, weights = by_the_book(weights, batch, 0.1)
        assert made.step(batch) == pytest.approx(wanted, rel=1e-5)
    found = np.load(io.BytesIO(made.state()))
    both = np.concatenate([found["weights"], found["bias"][:, None]], axis=1)
    np.testing.assert_allclose(both, weights, rtol=1e-4, atol=1e-6)


def test_an_evaluation_sums_over_the_valid_rows_and_changes_nothing() -> None:
    made = learner()
    for seed in range(3):
        made.step(drawn(seed))
    before, batch = made.state(), drawn(9)
    found = made.evaluate(batch)
    assert made.state() == before
    alone = [
        made.evaluate(batch_of(batch.images[i : i + 1], batch.labels[i : i + 1]))
        for i in np.flatnonzero(batch.valid)
    ]
    assert found["accuracy"] == sum(one["accuracy"] for one in alone)
    assert found["loss"] == pytest.approx(sum(one["loss"] for one in alone), rel=1e-5)


def test_a_batch_without_a_valid_row_changes_nothing() -> None:
    made = learner()
    made.step(drawn(0))
    before = made.state()
    nothing = batch_of(drawn(1).images, np.full(7, -1, np.int32))
    assert made.step(nothing) == 0
    assert made.state() == before


def test_it_learns_what_can_be_separated() -> None:
    made, rng = learner(0.5), np.random.default_rng(0)
    images = rng.normal(size=(90, *SHAPE)).astype(np.float32)
    labels = images.reshape(90, -1)[:, :3].argmax(axis=1).astype(np.int32)
    batch = batch_of(images, labels)
    first, *_, last = [made.step(batch) for _ in range(200)]
    assert first == pytest.approx(np.log(3), rel=1e-5)
    assert last < 0.3
    assert made.evaluate(batch)["accuracy"] > 85


def test_one_that_takes_up_a_state_goes_on_alike() -> None:
    made = learner()
    for seed in range(3):
        made.step(drawn(seed))
    again = learner()
    again.load(made.state())
    assert [made.step(drawn(4)), made.step(drawn(5))] == [
        again.step(drawn(4)),
        again.step(drawn(5)),
    ]
    assert made.state() == again.state()


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        ({"val": ImageSpec(*SHAPE, DType.FP32)}, "needs a phase 'train'"),
        ({"train": ImageSpec(*SHAPE)}, r"chain of train leaves UINT8\[2x3x1\]"),
        ({"train": ImageSpec(*SHAPE, DType.BF16)}, "takes FP32 or FP16 pixels"),
        (
            {"train": ImageSpec(2, 3, 1, DType.FP32), "val": ImageSpec(3, 3, 1, DType.FP32)},
            r"train has FP32\[2x3x1\] and 3 classes, val has FP32\[3x3x1\]",
        ),
        (
            {
                "train": ImageSpec(2, 3, 1, DType.FP32),
                "val": PhaseSetting(1, ("a",), None, ImageSpec(2, 3, 1, DType.FP32)),
            },
            "and 1. Make them the same",
        ),
    ],
)
def test_what_it_cannot_train_on_is_refused(phases: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Softmax().init(setting(**phases))


def words(data: Path, *more: str) -> list[str]:
    sets = [f"volume.path={data}", f"phases.val.volume.path={data}"]
    return ["+experiment=mnist_train", "consumer=softmax", *sets, "epochs=2", *more]


def test_a_run_trains_with_it(workdir: Path) -> None:
    data = write_small_set(workdir / "mnist_train.dts", Kind.MNIST, 200)
    assert main(words(data, "batch_size=50")) == 0
    report = json.loads(Path("runs/mnist_train/report.json").read_text())
    losses = [line["loss"] for line in report["train"]["losses"]]
    assert losses[1] < losses[0]
    assert [line["phase"] for line in report["train"]["evaluations"]] == ["val", "val"]


class There(np.ndarray[Any, Any]):
    """Stands for an array of a device."""

    device = nullcontext()  # type: ignore[assignment]  # cupy's is one of those

    @property
    def data(self) -> Any:  # cupy's has the address as `ptr`
        return SimpleNamespace(ptr=self.ctypes.data)

    def get(self) -> npt.NDArray[Any]:
        return np.array(self)


class Runner:
    """Stands for Captured: does the work, and notes with which key."""

    keys: list[Hashable]

    def __init__(self, library: object) -> None:
        assert library is sys.modules["there"]
        self.keys = []

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        self.keys.append(key)
        work()


def test_on_a_device_the_weights_stay_there_and_each_zone_is_captured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there: Any = ModuleType("there")
    for name in ("arange", "empty", "exp", "log", "maximum"):
        setattr(there, name, getattr(np, name))
    there.asarray = lambda array: np.array(array).view(There)
    monkeypatch.setitem(sys.modules, "there", there)
    monkeypatch.setattr(There, "__module__", "there")
    monkeypatch.setattr(softmax, "Captured", Runner)
    host, device = learner(), learner()
    device.load(host.state())  # before anything is on a device
    zones = [batch_of(there.asarray(b.images), there.asarray(b.labels)) for b in map(drawn, (0, 1))]
    plain = [drawn(0), drawn(1)]
    for step in range(5):
        assert device.step(zones[step % 2]) == host.step(plain[step % 2])
    assert device.evaluate(zones[0]) == host.evaluate(plain[0])
    assert device.state() == host.state()
    runner: Any = device._captured
    assert len(runner.keys) == 5
    assert len(set(runner.keys)) == 2
    assert isinstance(device._weights, There)
    kept = device._weights
    device.load(learner().state())
    assert device._weights is kept
    assert not kept.any()


@pytest.mark.gpu
def test_on_a_real_device_it_learns_as_on_the_host_from_two_graphs(tmp_path: Path) -> None:
    try:
        open_device(0)
    except MissingPartError as absent:
        pytest.skip(str(absent))
    data = write_small_set(tmp_path / "mnist_train.dts", Kind.MNIST, 400)
    losses: dict[str, list[float]] = {}
    states: dict[str, Any] = {}
    for arena in ("host", "device"):
        with dtsflow.open(*words(data, "batch_size=50", f"arena={arena}")) as run:
            phase = run.plan.phases["train"]
            own = PhaseSetting(0, tuple("0123456789"), None, ImageSpec(28, 28, 1, DType.FP32), 8)
            assert phase.order.steps == own.steps
            made = Softmax().init(Setting(None, {"train": own}))
            losses[arena] = [made.step(b) for e in range(3) for b in run.epoch(e, phase="train")]
            states[arena] = np.load(io.BytesIO(made.state()))
            if arena == "device":
                captured = made._captured
                graphs = [] if captured is None else list(captured._graphs.values())
                assert len(graphs) == 2
                assert None not in graphs
    np.testing.assert_allclose(losses["device"], losses["host"], rtol=1e-4)
    for name in ("weights", "bias"):
        np.testing.assert_allclose(
            states["device"][name], states["host"][name], rtol=1e-2, atol=1e-5
        )
