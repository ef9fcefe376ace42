"""Mixup and CutMix in whole runs, held against their functions on plain batches."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dtsflow
from dtsflow.arena.batch import Batch
from dtsflow.config.compose import compose
from dtsflow.consumer.consumer import PhaseSetting, Setting
from dtsflow.consumer.digest import Digest
from dtsflow.errors import ConfigError, PlanError, VolumeError
from dtsflow.native.core import load
from dtsflow.pipeline.build import build
from dtsflow.pipeline.explain import plan_text
from dtsflow.pipeline.planner import plan_run
from dtsflow.pipeline.run import Run
from dtsflow.po.chain import BatchOperation
from dtsflow.po.mixup import CutMix, Mixup, pair, soft_labels
from dtsflow.ranks.group import Rank
from dtsflow.seed.draws import batch_draws
from dtsflow.tensor.dtype import DType
from dtsflow.testing import jpeg, write_block_volume

CLASSES = 4
MIXUP = {"_target_": "dtsflow.po.Mixup", "alpha": 0.4}
CUTMIX = {"_target_": "dtsflow.po.CutMix"}
KINDS: dict[str, list[Any]] = {"mixup": [MIXUP], "cutmix": [CUTMIX], "both": [MIXUP, CUTMIX]}
OPERATIONS: dict[str, tuple[BatchOperation, ...]] = {
    "mixup": (Mixup(0.4),),
    "cutmix": (CutMix(),),
    "both": (Mixup(0.4), CutMix()),
}


def written(path: Path, bad: int | None = None) -> Path:
    """26 images, the last of label 3; `bad` is no image."""
    images = [(jpeg(20 + i, 30, seed=i), i % CLASSES) for i in range(26)]
    if bad is not None:
        images[bad] = (b"no image at all", bad % CLASSES)
    return write_block_volume(path, [images[:9], [], images[9:]])


@pytest.fixture
def volume(workdir: Path) -> Path:
    return written(workdir / "tiny_train_lv0.dts")


def tree_of(path: Path, batch: list[Any], dtype: str = "FP16", **values: Any) -> dict[str, Any]:
    operations = [
        {"_target_": "dtsflow.po.RandomResizedCrop", "size": 9},
        {
            "_target_": "dtsflow.po.Normalize",
            "preset": "none" if dtype == "UINT8" else "imagenet",
            "dtype": dtype,
        },
    ]
    return {
        "volume": {"path": str(path)},
        "po": {"operations": operations, "batch": batch},
        "station": {"poison": True, "timeout_s": 20},
        "batch_size": 12,
        "lanes": 4,
        "workers": 2,
        **values,
    }


def open_run(path: Path, batch: list[Any], dtype: str = "FP16", **values: Any) -> Run:
    return dtsflow.open(tree_of(path, batch, dtype, **values))


def kept(batch: Batch) -> dict[str, npt.NDArray[Any]]:
    names = ("padded", "labels", "valid", "sample_ids")
    arrays = {**{name: getattr(batch, name) for name in names}, **batch.fields}
    return {name: array.copy() for name, array in arrays.items()}


def batches_of(run: Run, epoch: int = 1) -> list[dict[str, npt.NDArray[Any]]]:
    return [kept(batch) for batch in run.epoch(epoch)]


def sequence(run: Run, *epochs: int) -> int:
    sink = Digest().open(Setting(None, {"train": PhaseSetting(0)}))
    for epoch in epochs:
        for batch in run.epoch(epoch):
            sink.take(batch)
    return int(sink.results()["digest"]["sequence"], 16)


def expected(plain: dict[str, npt.NDArray[Any]], kind: str, step: int, dtype: DType) -> Any:
    """Pixels and soft labels that the functions make of a batch that is not mixed."""
    pixels, soft = plain["padded"].copy(), np.zeros((12, CLASSES), np.float32)
    for position, operation in enumerate(OPERATIONS[kind]):
        draws = batch_draws(
            seed=0, step=step, epoch=1, phase=0, lanes=np.arange(4), words=operation.words,
            position=position,
        )  # fmt: skip
        params = operation.draw(draws, 9, 9)
        for lane in range(4):
            own = slice(3 * lane, 3 * lane + 3)
            partners = pair(plain["valid"][own], int(params[lane]["shift"]))
            pixels[own] = operation.apply(pixels[own], params[lane], partners, dtype=dtype)
            if position == 0:
                made = soft_labels(plain["labels"][own], params[lane], partners, CLASSES)
            else:
                part = np.full((3, 1), params[lane]["share"], np.float32)
                part[partners == np.arange(3)] = 1
                made = soft[own] * part + soft[own][partners] * (np.float32(1) - part)
            soft[own] = made
    return pixels, soft


@pytest.mark.parametrize("dtype", ["FP32", "FP16", "BF16", "UINT8"])
@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_what_the_functions_make_of_plain_ones(
    volume: Path, kind: str, dtype: str
) -> None:
    with open_run(volume, [], dtype) as run:
        plain = batches_of(run)
    with open_run(volume, KINDS[kind], dtype) as run:
        mixed = batches_of(run)
    assert "soft_labels" not in plain[0]
    for step, (before, after) in enumerate(zip(plain, mixed, strict=True)):
        pixels, soft = expected(before, kind, step, DType[dtype])
        assert after["padded"].tobytes() == pixels.tobytes()
        assert np.array_equal(after["soft_labels"], soft)
        assert after["soft_labels"].dtype == np.float32
        for name in ("labels", "valid", "sample_ids"):
            assert np.array_equal(before[name], after[name])
    assert plain[0]["padded"].tobytes() != mixed[0]["padded"].tobytes()


def test_rows_that_are_missing_are_in_no_pair(volume: Path) -> None:
    with open_run(volume, [MIXUP]) as run:
        last = batches_of(run)[-1]
    assert last["valid"].sum() == 2
    assert not last["padded"][~last["valid"]].any()
    assert last["soft_labels"].sum(axis=1).tolist() == last["valid"].astype(float).tolist()


def test_a_masked_row_is_in_no_pair(workdir: Path) -> None:
    path = written(workdir / "bad.dts", bad=5)
    with open_run(path, [], decode={"on_error": "mask"}) as run:
        plain = batches_of(run)
    with open_run(path, [MIXUP], decode={"on_error": "mask"}) as run:
        mixed = batches_of(run)
    for step, (before, after) in enumerate(zip(plain, mixed, strict=True)):
        pixels, soft = expected(before, "mixup", step, DType.FP16)
        assert np.array_equal(after["padded"], pixels)
        assert np.array_equal(after["soft_labels"], soft)
    assert sum(int((~batch["valid"]).sum()) for batch in mixed) == 11  # 10 behind the end


@pytest.mark.parametrize("kind", KINDS)
def test_neither_workers_nor_ranks_nor_a_stop_change_a_pixel(volume: Path, kind: str) -> None:
    tree = tree_of(volume, KINDS[kind])
    found = []
    for workers, size in ((1, 1), (8, 1), (2, 2), (3, 4)):
        pipeline = build(compose(values={**tree, "workers": workers}).values)
        total, soft = 0, []
        for index in range(size):
            with Run.open(plan_run(pipeline, Rank(index, size))) as run:
                total += sequence(run, 0, 1)
                soft.append([batch["soft_labels"] for batch in batches_of(run)])
        whole = [np.concatenate(parts).tobytes() for parts in zip(*soft, strict=True)]
        found.append((total % (1 << 256), whole))
    assert all(one == found[0] for one in found)
    with dtsflow.open(tree) as run:
        whole_epoch = batches_of(run)
        rest = [kept(batch) for batch in run.epoch(1, start_step=1)]
    for one, other in zip(whole_epoch[1:], rest, strict=True):
        assert np.array_equal(one["padded"], other["padded"])
        assert np.array_equal(one["soft_labels"], other["soft_labels"])


def test_native_and_reference_mix_alike(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_run(volume, [MIXUP, CUTMIX]) as run:
        native = sequence(run, 0)
    monkeypatch.setattr("dtsflow.pipeline.phase.load", lambda: None)
    monkeypatch.setattr("dtsflow.pipeline.phase.warn_absent", lambda: None)
    with open_run(volume, [MIXUP, CUTMIX]) as run:
        assert sequence(run, 0) == native


def test_lanes_of_one_row_are_refused_with_what_to_do(volume: Path) -> None:
    with pytest.raises(PlanError, match=r"1 row\(s\).*Use a smaller `lanes`"):
        open_run(volume, [MIXUP], lanes=12)


def test_an_operation_on_single_images_does_not_mix_batches(volume: Path) -> None:
    with pytest.raises(ConfigError, match=r"^po\.batch\[0\]"):
        open_run(volume, [{"_target_": "dtsflow.po.RandomHorizontalFlip"}])


def test_a_label_beyond_the_classes_is_named(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dtsflow.volume.datasets.volume_set.VolumeSet.num_classes", property(lambda _: 3)
    )
    with (
        open_run(volume, [MIXUP]) as run,
        pytest.raises(VolumeError, match=r"label 3, .* 3 classes"),
    ):
        batches_of(run)


def test_the_plan_shows_and_counts_the_mixing(volume: Path) -> None:
    alpha = {"_target_": "dtsflow.po.Schedule", "points": [[0, 0.2], [3, 0.4]]}
    with open_run(volume, [{**MIXUP, "alpha": alpha}]) as run:
        text = plan_text(run.plan)
        epochs = [sequence(run, epoch) for epoch in (0, 3)]
    assert "po.batch[0]" in text
    assert "Mixup(alpha=0.2), from epoch 3 alpha=0.4" in text
    assert "soft_labels FP32[12x4]" in text
    for epoch, fixed in ((0, 0.2), (3, 0.4)):
        with open_run(volume, [{**MIXUP, "alpha": fixed}]) as run:
            assert sequence(run, epoch) == epochs[epoch // 3]


@pytest.mark.skipif(load() is None, reason="there is no compiled core")
def test_the_core_mixes_as_numpy_does_and_needs_no_scratch(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = "scratch of views and mixing"
    with open_run(volume, KINDS["both"]) as run:
        assert entry not in run.plan.memory_entries
        by_core = sequence(run, 0, 1)
    monkeypatch.setattr("dtsflow.pipeline.phase.load", lambda: None)
    monkeypatch.setattr("dtsflow.pipeline.phase.warn_absent", lambda: None)
    with open_run(volume, KINDS["both"]) as run:
        assert run.plan.memory_entries[entry] == 2 * 24 * 3 * 9 * 9 * 4
        assert sequence(run, 0, 1) == by_core


def test_mixing_is_in_the_fingerprint_and_only_where_it_is_done(volume: Path) -> None:
    found = []
    for batch in ([], [MIXUP], [CUTMIX]):
        with open_run(volume, batch) as run:
            found.append(run.plan.fingerprint())
    assert "batch" not in found[0]
    assert found[1]["batch"] != found[2]["batch"]
    assert found[0]["po"] == found[1]["po"]


def test_only_training_is_mixed_unless_another_phase_says_so(volume: Path) -> None:
    said = {"po": {"batch": [CUTMIX]}}
    with open_run(volume, [MIXUP], phases={"train": None, "val": None, "other": said}) as run:
        fields = {
            phase: {name for batch in run.epoch(0, phase) for name in batch.fields}
            for phase in run.plan.phases
        }
    assert fields == {"train": {"soft_labels"}, "val": set(), "other": {"soft_labels"}}


def test_what_is_not_exact_there_is_not_left_to_a_device(volume: Path) -> None:
    plans = []
    for batch in ([], [MIXUP]):
        tree = tree_of(
            volume, batch, arena={"_target_": "dtsflow.arena.Device", "normalize_on": "device"}
        )
        plans.append(plan_run(build(compose(values=tree).values), Rank(0, 1)).phases["train"])
    assert [plan.forms["train"].finish is None for plan in plans] == [False, True]
