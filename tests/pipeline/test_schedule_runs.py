"""Schedules in whole runs: what changes from epoch to epoch, and what never does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtsflow
from dtsflow.cli.main import main
from dtsflow.config.compose import compose
from dtsflow.consumer.consumer import PhaseSetting, Setting
from dtsflow.consumer.digest import Digest
from dtsflow.errors import ConfigError, PlanError
from dtsflow.pipeline.build import build
from dtsflow.pipeline.explain import plan_text
from dtsflow.pipeline.planner import plan_run
from dtsflow.pipeline.run import Run
from dtsflow.po.crop import RandomResizedCrop
from dtsflow.po.schedule import Scheduled
from dtsflow.ranks.group import Rank
from dtsflow.testing import jpeg, write_block_volume

FLIP = {"_target_": "dtsflow.po.RandomHorizontalFlip"}
FP16 = {"_target_": "dtsflow.po.Normalize", "preset": "imagenet", "dtype": "FP16"}


def schedule(*points: Any, **more: Any) -> dict[str, Any]:
    return {"_target_": "dtsflow.po.Schedule", "points": list(points), **more}


def crop(size: Any, **more: Any) -> dict[str, Any]:
    return {"_target_": "dtsflow.po.RandomResizedCrop", "size": size, **more}


GROWING = crop(schedule([0, 10], [2, 14]))


@pytest.fixture
def volume(workdir: Path) -> Path:
    images = [(jpeg(20 + i, 30, seed=i), i % 4) for i in range(18)]
    return write_block_volume(workdir / "tiny_train_lv0.dts", [images[:7], images[7:]])


def tree_of(path: Path, *operations: Any, **values: Any) -> dict[str, Any]:
    return {
        "volume": {"path": str(path)},
        "po": {"operations": [*operations, FLIP, FP16]},
        "station": {"poison": True, "timeout_s": 20},
        "batch_size": 4,
        "lanes": 2,
        "workers": 2,
        **values,
    }


def open_run(path: Path, *operations: Any, **values: Any) -> Run:
    return dtsflow.open(tree_of(path, *operations, **values))


def sequence(run: Run, epoch: int, start_step: int = 0, steps: int | None = None) -> int:
    sink = Digest().open(Setting(None, {"train": PhaseSetting(0)}))
    for batch in run.epoch(epoch, start_step=start_step, steps=steps):
        sink.take(batch)
    return int(sink.results()["digest"]["sequence"], 16)


def test_shapes_change_and_addresses_never_do(volume: Path) -> None:
    seen: dict[int, set[tuple[int, int, int]]] = {0: set(), 1: set()}
    with open_run(volume, GROWING) as run:
        for epoch, side in ((0, 10), (1, 10), (2, 14), (5, 14), (0, 10)):
            for batch in run.epoch(epoch):
                assert batch.images.shape == (4, side, side, 3)
                assert batch.padded.shape == (4, side, side, 4)
                assert not batch.padded[..., 3].any()
                assert np.isfinite(batch.images.astype(np.float32)).all()
                places = (batch.padded, batch.labels, batch.valid)
                seen[batch.zone].add(tuple(array.ctypes.data for array in places))  # type: ignore[arg-type]  # of three
    assert [len(places) for places in seen.values()] == [1, 1]


def test_an_epoch_is_that_of_a_run_without_a_schedule(volume: Path) -> None:
    with open_run(volume, GROWING, workers=8) as run:
        found = [sequence(run, epoch) for epoch in (2, 0, 3, 1)]
    with open_run(volume, crop(10)) as small, open_run(volume, crop(14)) as large:
        assert found[::2] == [sequence(large, epoch) for epoch in (2, 3)]
        assert found[1::2] == [sequence(small, epoch) for epoch in (0, 1)]


def test_strengths_change_as_sizes_do(volume: Path) -> None:
    scale = schedule([0, [0.5, 1.0]], [4, [0.1, 0.5]], linear=True)
    with open_run(volume, crop(10, scale=scale)) as run:
        assert len(run.plan.phases["train"].forms) == 1
        found = [sequence(run, epoch) for epoch in (0, 2, 4)]
    for epoch, fixed in zip((0, 2, 4), ([0.5, 1.0], [0.3, 0.75], [0.1, 0.5]), strict=True):
        with open_run(volume, crop(10, scale=fixed)) as run:
            assert sequence(run, epoch) == found[epoch // 2]


def test_ranks_make_parts_of_the_same_batches(volume: Path) -> None:
    pipeline = build(compose(values=tree_of(volume, GROWING)).values)
    sums = []
    for size in (1, 2):
        total = 0
        for index in range(size):
            with Run.open(plan_run(pipeline, Rank(index, size))) as run:
                total += sum(sequence(run, epoch) for epoch in (1, 2))
        sums.append(total % (1 << 256))
    assert sums[0] == sums[1]


def test_a_run_goes_on_in_the_middle_of_a_later_epoch(volume: Path) -> None:
    with open_run(volume, GROWING) as run:
        whole = sequence(run, 2)
        first = sequence(run, 2, steps=2)
    with open_run(volume, GROWING, workers=1) as run:
        assert (first + sequence(run, 2, start_step=2)) % (1 << 256) == whole


def test_every_size_has_room_in_the_plan_and_is_told(volume: Path) -> None:
    with open_run(volume, GROWING) as run:
        plan = run.plan
        images = next(tensor for tensor in plan.memory.tensors if tensor.name == "images")
        text = plan_text(plan)
    assert [str(form.shape) for form in images.forms] == ["[4,10,10,3]", "[4,14,14,3]"]
    assert list(plan.phases["train"].forms) == ["train", "train from epoch 2"]
    assert "from epoch 0 on: images FP16[10x10x3]" in text
    assert "from epoch 2 on: images FP16[14x14x3]" in text
    pixels = plan.phases["train"].pixels
    assert pixels is not None
    assert (pixels.height, pixels.channels) == (None, 3)


def test_the_schedule_is_in_the_fingerprint_by_what_it_does(volume: Path) -> None:
    found = []
    for size in (10, schedule([0, 10]), schedule([0, 10], [9, 10]), schedule([0, 10], [9, 11])):
        with open_run(volume, crop(size)) as run:
            found.append(run.plan.fingerprint()["po"])
    assert found[0] == found[1] == found[2] != found[3]


def test_phases_have_schedules_and_sizes_of_their_own(volume: Path) -> None:
    val = {"operations": [{"_target_": "dtsflow.po.CenterCrop", "size": 20}]}
    phases = {"train": None, "val": {"po": val}}
    with open_run(volume, GROWING, phases=phases) as run:
        for epoch, side in ((0, 10), (3, 14)):
            train = {batch.images.shape for batch in run.epoch(epoch)}
            evaluated = {batch.images.shape for batch in run.epoch(epoch, "val")}
            assert train == {(4, side, side, 3)}
            assert evaluated == {(4, 20, 20, 3)}


def test_times_and_workers_outlive_a_change(volume: Path) -> None:
    with open_run(volume, GROWING) as run:
        sequence(run, 0)
        own = run._resources
        assert own is not None
        first = own.times
        sequence(run, 2)
        assert own.times.read >= first.read > 0
        assert len(own.phases["train"].engines) == 2


def test_the_command_line_takes_a_schedule(
    volume: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = "{_target_: dtsflow.po.Schedule, points: [[0, 8], [1, 12]]}"
    words = [f"volume.path={volume}", "po=imagenet_train", f"po.operations.0.size={size}"]
    assert main(["plan", *words, "batch_size=4"]) == 0
    assert "RandomResizedCrop(size=8" in (told := capsys.readouterr().out)
    assert "from epoch 1 size=12" in told


def test_building_makes_the_operations_of_all_epochs(volume: Path) -> None:
    chain = build(compose(values=tree_of(volume, GROWING)).values).phases["train"].po
    assert chain.operations[0] == Scheduled(
        ((0, RandomResizedCrop(10)), (2, RandomResizedCrop(14)))
    )


@pytest.mark.parametrize(
    ("operation", "told"),
    [
        (crop(schedule([1, 10])), r"^po\.operations\[0\]\.size: .*have no value"),
        (crop(schedule([0, 10], [-2, 12])), r"^po\.operations\[0\]\.size: .*epoch -2 is below 0"),
        (crop(schedule([0, 10], [3, 0])), r"^po\.operations\[0\]: from epoch 3 on, size"),
        (crop(schedule([0, 10], steps=True)), r"^po\.operations\[0\]\.size\.steps: .*no such key"),
        (crop(10, sizes=schedule([0, 10])), r"^po\.operations\[0\]\.sizes: .*no such key"),
        (
            {"_target_": "dtsflow.po.Normalize", "mean": schedule([0, 0.5]), "std": [1]},
            r"^po\.operations\[0\]: Normalize is the same in all epochs",
        ),
        (
            {"_target_": "dtsflow.po.Mixup", "alpha": schedule([0, 0.5])},
            r"Mixup cannot stand here",
        ),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused_with_its_path(
    volume: Path, operation: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        open_run(volume, operation)


def test_an_epoch_whose_chain_makes_no_batch_is_refused_at_plan_time(volume: Path) -> None:
    erase = {"_target_": "dtsflow.po.RandomErasing", "p": schedule([0, 0.5], [4, 1.0])}
    with pytest.raises(PlanError, match=r"po\.operations\[1\].*comes after RandomErasing"):
        open_run(volume, erase, crop(10))
