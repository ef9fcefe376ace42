import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import dtsflow
from dtsflow.errors import ClosedError, ConfigError, DtsflowError, PlanError
from dtsflow.pipeline.run import Run
from dtsflow.testing import jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import Kind

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from dtsflow.interop.torch import Loader, TorchBatch  # noqa: E402  # it needs PyTorch

STEPS = 6  # 22 samples in batches of 4; the last has two missing rows
DTYPES = {
    "FP32": torch.float32,
    "FP16": torch.float16,
    "BF16": torch.bfloat16,
    "UINT8": torch.uint8,
}


@pytest.fixture
def volume(workdir: Path) -> Path:
    images = [(jpeg(20, 24, seed=i), i % 4) for i in range(22)]
    return write_block_volume(workdir / "tiny.dts", [images[:9], images[9:12], images[12:]])


def config(path: Path, dtype: str = "UINT8", **values: Any) -> dict[str, Any]:
    preset = "none" if dtype == "UINT8" else "imagenet"
    crop = {"_target_": "dtsflow.po.RandomResizedCrop", "size": 8}
    normalize = {"_target_": "dtsflow.po.Normalize", "preset": preset, "dtype": dtype}
    return {
        "volume": {"path": str(path)},
        "po": {"operations": [crop, normalize]},
        "station": {"poison": True, "timeout_s": 30},
        "batch_size": 4,
        "lanes": 1,
        "workers": 2,
        **values,
    }


def bits(tensor: Any) -> bytes:
    """The bytes of a tensor in its logical order."""
    flat = tensor.contiguous()
    held: bytes = flat.view(torch.uint8).numpy().tobytes()
    return held


def shown(batch: TorchBatch) -> tuple[bytes, ...]:
    return tuple(bits(tensor) for tensor in (batch.images, batch.labels, batch.sample_ids))


def wanted(run: Run, epoch: int, start_step: int = 0) -> list[tuple[bytes, ...]]:
    """What `shown` must be of each batch of an epoch, by NumPy alone."""
    found: list[tuple[bytes, ...]] = []
    for batch in run.epoch(epoch, start_step=start_step):
        images = np.ascontiguousarray(batch.images.transpose(0, 3, 1, 2))
        labels = np.where(batch.labels == -1, -100, batch.labels).astype(np.int64)
        found.append((images.tobytes(), labels.tobytes(), batch.sample_ids.tobytes()))
    return found


def ahead(batches: Iterable[TorchBatch]) -> Iterator[TorchBatch]:
    """Ask for a batch before the one before it is used, as Accelerate does."""
    source = iter(batches)
    held = next(source)
    for following in source:
        yield held
        held = following
    yield held


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_list_of_batches_has_the_pixels_of_the_run(volume: Path, dtype: str) -> None:
    with dtsflow.open(config(volume, dtype)) as run:
        expected = wanted(run, 0)
        batches = list(Loader(run))
    assert [shown(batch) for batch in batches] == expected
    assert len(expected) == STEPS
    assert {batch.images.dtype for batch in batches} == {DTYPES[dtype]}
    assert batches[0].images.shape == (4, 3, 8, 8)


def test_bfloat16_pixels_are_the_numbers_that_fp32_rounds_to(volume: Path) -> None:
    with Loader(config(volume, "BF16")) as loader, Loader(config(volume, "FP32")) as exact:
        for rounded, batch in zip(loader, exact, strict=True):
            assert torch.equal(rounded.images, batch.images.to(torch.bfloat16))


def test_a_look_ahead_by_one_has_the_right_pixels(volume: Path) -> None:
    with dtsflow.open(config(volume)) as run:
        expected = wanted(run, 0)
        assert [shown(batch) for batch in ahead(Loader(run))] == expected
        assert [shown(batch) for batch in ahead(Loader(run, copy=False))] != expected


def read_late(batches: Iterable[TorchBatch]) -> list[tuple[bytes, ...]]:
    """What arrives where another thread reads each batch once the next one is there."""
    arrived: list[tuple[bytes, ...]] = []
    pending: TorchBatch | None = None
    for batch in chain(batches, [None]):
        if pending is not None:
            transfer = Thread(target=lambda late=pending: arrived.append(shown(late)))
            transfer.start()
            transfer.join()
        pending = batch
    return arrived


def test_a_transfer_that_runs_late_has_the_right_pixels(volume: Path) -> None:
    with dtsflow.open(config(volume)) as run:
        expected = wanted(run, 0)
        assert read_late(Loader(run, device="cpu", non_blocking=True)) == expected
        assert read_late(Loader(run, copy=False)) != expected


def test_without_copies_a_batch_is_right_until_the_next_one_is_asked_for(volume: Path) -> None:
    with dtsflow.open(config(volume)) as run:
        expected = wanted(run, 0)
        loader = Loader(run, copy=False)
        places = set()
        for step, batch in enumerate(loader):
            assert shown(batch) == expected[step]
            places.add(batch.images.data_ptr())
    assert len(places) == 2  # the two halves of the station: nothing was copied


def test_poison_shows_a_late_read_of_a_batch_that_is_no_copy(volume: Path) -> None:
    with dtsflow.open(config(volume, "FP32")) as run:
        late = list(Loader(run, copy=False))
    for batch in late:
        assert torch.isnan(batch.images).all()
        assert (batch.sample_ids == -1).all()


def test_a_loop_copies_into_memory_that_it_has_let_go_of(volume: Path) -> None:
    with Loader(config(volume)) as loader:
        places = [batch.images.data_ptr() for batch in loader]
    assert len(set(places)) == 2  # the batch in hand, and the one that is made meanwhile


def test_a_part_of_a_batch_keeps_its_pixels(volume: Path) -> None:
    with dtsflow.open(config(volume)) as run:
        expected = [batch.images[2, :, :, 1].tobytes() for batch in run.epoch(0)]
        parts = [batch.images[2, 1] for batch in Loader(run)]
    assert [bits(part) for part in parts] == expected


def test_missing_rows_have_the_label_that_losses_ignore(volume: Path) -> None:
    with Loader(config(volume, "FP32")) as loader:
        batch = list(loader)[-1]
    assert batch.labels.dtype == torch.int64
    assert batch.valid.tolist() == [True, True, False, False]
    assert batch.labels.tolist()[2:] == [-100, -100]
    scores = torch.zeros(4, 4)
    assert torch.isclose(
        torch.nn.functional.cross_entropy(scores, batch.labels),
        torch.nn.functional.cross_entropy(scores[:2], batch.labels[:2]),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_pixels_are_channels_last_unless_asked_otherwise(volume: Path, dtype: str) -> None:
    with dtsflow.open(config(volume, dtype)) as run:
        last = next(iter(Loader(run))).images
        loader = Loader(run, channels_last=False)
        loader.set_epoch(0)
        first = next(iter(loader)).images
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert not last.is_contiguous()
    assert first.is_contiguous()
    assert torch.equal(first, last)


def test_a_batch_unpacks_into_images_and_labels(volume: Path) -> None:
    with Loader(config(volume)) as loader:
        images, labels, *_ = next(iter(loader))
    assert len(images) == len(labels) == 4


def epochs(loader: Loader, passes: int) -> list[list[bytes]]:
    return [[bits(batch.images) for batch in loader] for _ in range(passes)]


def test_each_pass_is_the_next_epoch(volume: Path) -> None:
    with dtsflow.open(config(volume)) as run:
        expected = [[images for images, *_ in wanted(run, epoch)] for epoch in range(3)]
        loader = Loader(run)
        assert epochs(loader, 2) == expected[:2]
        assert loader.epoch == 2
        loader.set_epoch(0)
        next(iter(loader))  # a pass that is left early
        assert epochs(loader, 2) == expected[1:]
    assert expected[0] != expected[1]


def test_a_length_is_that_of_a_whole_epoch(volume: Path) -> None:
    with Loader(config(volume)) as loader:
        assert len(loader) == STEPS
        state = loader.state_dict()
        loader.load_state_dict({**state, "step": 4})
        assert len(loader) == STEPS
        assert sum(1 for _ in loader) == 2
    assert len(loader) == STEPS


@pytest.fixture
def reference_epochs(volume: Path) -> list[list[bytes]]:
    with Loader(config(volume)) as loader:
        return epochs(loader, 3)


@pytest.mark.parametrize("done", range(STEPS + 1))
def test_a_state_goes_on_behind_the_batches_handed_out(
    volume: Path, reference_epochs: list[list[bytes]], done: int
) -> None:
    with Loader(config(volume)) as loader:
        seen = [bits(batch.images) for batch in islice(loader, done)]
        state = json.loads(json.dumps(loader.state_dict()))
    with Loader(config(volume, workers=1)) as loader:
        loader.load_state_dict(state)
        assert (state["epoch"], state["step"]) == ((0, done) if done < STEPS else (1, 0))
        rest = epochs(loader, 2)
    assert seen == reference_epochs[0][:done]
    left = reference_epochs[0][done:]
    assert rest == ([left, reference_epochs[1]] if left else reference_epochs[1:])


RESUME = """
import json, sys
from dtsflow.interop.torch import Loader

with Loader(json.loads(sys.argv[1])) as loader:
    loader.load_state_dict(json.loads(sys.argv[2]))
    print(json.dumps([batch.sample_ids.tolist() for batch in loader]))
"""


def test_a_new_process_goes_on_with_the_next_batch(volume: Path) -> None:
    tree = config(volume)
    with Loader(tree) as loader:
        batches = [batch.sample_ids.tolist() for batch in loader]
        loader.set_epoch(0)
        source = iter(loader)
        assert [next(source).sample_ids.tolist() for _ in range(2)] == batches[:2]
        state = loader.state_dict()
    done = subprocess.run(
        [sys.executable, "-c", RESUME, json.dumps(tree), json.dumps(state)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == batches[2:]


def test_a_state_is_also_what_resume_takes(volume: Path, workdir: Path) -> None:
    with dtsflow.open(config(volume)) as run:
        loader = Loader(run)
        for _ in islice(loader, 3):
            assert loader.state_dict() == json.loads(run.state().to_json())
        (workdir / "saved.json").write_text(json.dumps(loader.state_dict()))
        expected = wanted(run, 0)
    with Loader(config(volume, resume="saved.json")) as loader:
        assert loader.epoch == 0
        assert [shown(batch) for batch in loader] == expected[3:]


def test_behind_a_look_ahead_the_state_counts_what_the_wrapper_holds(
    volume: Path, reference_epochs: list[list[bytes]]
) -> None:
    with Loader(config(volume)) as loader:
        states = [loader.state_dict() for _ in islice(ahead(loader), 3)]
    assert [state["step"] for state in states] == [2, 3, 4]
    with Loader(config(volume)) as loader:
        loader.load_state_dict(states[-2])  # from before the batch that was held at last
        assert [bits(batch.images) for batch in loader] == reference_epochs[0][3:]


def test_the_epoch_of_a_loaded_state_may_be_set_again(volume: Path) -> None:
    with Loader(config(volume)) as loader:
        loader.load_state_dict({**loader.state_dict(), "epoch": 2, "step": 4})
        loader.set_epoch(2)
        assert sum(1 for _ in loader) == STEPS - 4
        loader.set_epoch(2)
        assert (loader.epoch, loader.state_dict()["step"]) == (2, 0)
        assert sum(1 for _ in loader) == STEPS


def test_a_pass_at_work_does_not_move_a_state_that_was_loaded(volume: Path) -> None:
    with Loader(config(volume)) as loader:
        source = iter(loader)
        next(source)
        state = {**loader.state_dict(), "epoch": 5}
        loader.load_state_dict(state)
        next(source)
        assert loader.state_dict() == state


def test_a_state_of_another_run_is_refused_by_what_changed(volume: Path) -> None:
    with Loader(config(volume, seed=1)) as loader:
        state = loader.state_dict()
    with Loader(config(volume, seed=2)) as loader:
        with pytest.raises(ConfigError, match=r"the state_dict is .* with another seed"):
            loader.load_state_dict(state)
        assert loader.state_dict()["step"] == 0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"phase": "val"}, "of phase 'val', and this loader gives 'train'"),
        ({"step": STEPS}, f"step {STEPS} of an epoch with {STEPS}"),
        ({"step": -1}, "its step is no number"),
        ({"more": 1}, "must hold phase, epoch, step, fingerprint"),
        ({"step": torch.tensor(1)}, "not JSON serializable"),
    ],
)
def test_what_is_no_state_of_the_loader_is_refused(
    volume: Path, change: dict[str, Any], why: str
) -> None:
    with Loader(config(volume)) as loader, pytest.raises(ConfigError, match=why):
        loader.load_state_dict({**loader.state_dict(), **change})


def test_an_unknown_phase_is_refused_and_leaves_nothing_open(volume: Path) -> None:
    with dtsflow.open(config(volume)) as run:
        with pytest.raises(PlanError, match="no phase 'test'"):
            Loader(run, "test")
        assert list(run.epoch(0))  # a run that was given stays open
    with pytest.raises(PlanError, match="no phase 'test'"):
        Loader(config(volume), phase="test")


def test_a_closed_run_gives_no_batches(volume: Path) -> None:
    run = dtsflow.open(config(volume))
    loader = Loader(run)
    source = iter(loader)
    next(source)
    run.close()
    state = loader.state_dict()
    assert state["step"] == 1
    for ask in (lambda: iter(loader), lambda: loader.set_epoch(3), lambda: Loader(run)):
        with pytest.raises(ClosedError, match="closed"):
            ask()
    with pytest.raises(ClosedError):
        list(source)
    assert loader.state_dict() == state


def test_a_loader_closes_the_run_that_it_opened_and_no_other(volume: Path) -> None:
    with dtsflow.open(config(volume)) as run:
        with Loader(run) as loader:
            next(iter(loader))
        assert len(list(run.epoch(0))) == STEPS
    own = Loader(config(volume))
    own.close()
    own.close()
    with pytest.raises(ClosedError):
        iter(own)


def test_a_loop_that_fails_leaves_a_run_that_goes_on(volume: Path) -> None:
    def fail(loader: Loader) -> None:
        with loader:
            for _ in loader:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail(Loader(config(volume, name="mine")))
    assert not Path("runs/mine/report.json").exists()


def test_a_configuration_may_be_overrides_and_trees(workdir: Path) -> None:
    path = write_small_set(workdir / "mnist.dts", Kind.MNIST, 8)
    tree = {"volume": {"path": str(path)}}
    with Loader(["po=mnist", tree, "batch_size=8"]) as loader:
        (batch,) = loader
    assert batch.images.shape == (8, 1, 28, 28)
    with pytest.raises(DtsflowError, match="nowhere"):
        Loader("volume.path=nowhere.dts")


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        ({"copy": False, "channels_last": False}, "Give copy=True"),
        ({"copy": False, "non_blocking": True}, "non_blocking=False"),
    ],
)
def test_choices_that_exclude_each_other_are_refused(
    volume: Path, choice: dict[str, Any], why: str
) -> None:
    with dtsflow.open(config(volume)) as run, pytest.raises(ConfigError, match=why):
        Loader(run, **choice)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_cuda_device_that_is_not_there_is_refused(volume: Path) -> None:
    with pytest.raises(ConfigError, match=r"device is cuda:0, and this PyTorch .* finds no CUDA"):
        Loader(config(volume), device="cuda:0")
