"""Views in whole runs: names, phases, plan and fingerprint."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtsflow
from dtsflow.cli.main import main
from dtsflow.config.compose import compose
from dtsflow.errors import ConfigError, PlanError
from dtsflow.memory.region import Region
from dtsflow.pipeline.build import build
from dtsflow.pipeline.explain import plan_text
from dtsflow.pipeline.planner import plan_run
from dtsflow.pipeline.run import Run
from dtsflow.ranks.group import Rank
from dtsflow.testing import jpeg, write_block_volume

CROP = {"_target_": "dtsflow.po.RandomResizedCrop", "size": 12}
FLIP = {"_target_": "dtsflow.po.RandomHorizontalFlip"}
FP16 = {"_target_": "dtsflow.po.Normalize", "preset": "imagenet", "dtype": "FP16"}
SIZE = {"_target_": "dtsflow.po.Schedule", "points": [[0, 6], [2, 9]]}
VIEWS = {"second": [CROP, FLIP, FP16], "small": [{**CROP, "size": SIZE}]}


@pytest.fixture
def volume(workdir: Path) -> Path:
    images = [(jpeg(20 + i, 30, seed=i), i % 4) for i in range(18)]
    return write_block_volume(workdir / "tiny_train_lv0.dts", [images[:7], images[7:]])


def tree_of(path: Path, views: dict[str, Any], **values: Any) -> dict[str, Any]:
    return {
        "volume": {"path": str(path)},
        "po": {"operations": [CROP, FP16], "views": views},
        "station": {"poison": True, "timeout_s": 20},
        "batch_size": 4,
        "lanes": 2,
        "workers": 2,
        **values,
    }


def open_run(path: Path, views: dict[str, Any], **values: Any) -> Run:
    return dtsflow.open(tree_of(path, views, **values))


def rows_of(run: Run, epoch: int, start_step: int = 0) -> dict[tuple[int, int], tuple[bytes, ...]]:
    """By step and row of the global batch, the bytes of all fields."""
    return {
        (batch.step, batch.first_row + int(row)): tuple(
            array[row].tobytes() for array in (batch.images, batch.second, batch.small)
        )
        for batch in run.epoch(epoch, start_step=start_step)
        for row in np.flatnonzero(batch.valid)
    }


def test_a_field_has_a_size_and_type_of_its_own_at_fixed_places(volume: Path) -> None:
    seen: dict[int, set[tuple[int, int]]] = {0: set(), 1: set()}
    with open_run(volume, VIEWS) as run:
        for epoch, side in ((0, 6), (2, 9), (1, 6)):
            for batch in run.epoch(epoch):
                assert batch.images.shape == batch.second.shape == (4, 12, 12, 3)
                assert batch.small.shape == (4, side, side, 3)
                assert (batch.second.dtype, batch.small.dtype) == (np.float16, np.uint8)
                assert not batch.second[~batch.valid].any()
                seen[batch.zone].add((batch.second.ctypes.data, batch.small.ctypes.data))
        slots = run.plan.memory.region_tensors(Region.I_A_DATA)
    assert [len(places) for places in seen.values()] == [1, 1]
    assert [tensor.name for tensor in slots] == ["images", "second", "small"]


def test_neither_workers_nor_ranks_nor_a_stop_change_a_view(volume: Path) -> None:
    found = []
    for workers, size in ((1, 1), (8, 1), (2, 2)):
        pipeline = build(compose(values=tree_of(volume, VIEWS, workers=workers)).values)
        rows: dict[tuple[int, int], tuple[bytes, ...]] = {}
        for index in range(size):
            with Run.open(plan_run(pipeline, Rank(index, size))) as run:
                rows |= rows_of(run, 2)
        found.append(rows)
    assert found[0] == found[1] == found[2]
    with open_run(volume, VIEWS) as run:
        rest = rows_of(run, 2, start_step=2)
    assert rest == {place: row for place, row in found[0].items() if place[0] >= 2}
    assert rest


@pytest.mark.parametrize(
    "name", ["images", "padded", "labels", "valid", "soft_labels", "step", "fields", "compact"]
)
def test_a_view_with_the_name_of_something_else_is_refused(volume: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"po.views: '{name}' is something else of a batch"):
        open_run(volume, {name: [CROP]})


def test_a_view_that_makes_no_batch_is_refused_with_its_path(volume: Path) -> None:
    with pytest.raises(PlanError, match=r"^po\.views\.second: .*of different sizes"):
        open_run(volume, {"second": [FLIP]})
    views = {"second": [CROP, {"_target_": "dtsflow.po.Normalize", "preset": "mnist"}]}
    phases = {"train": None, "val": None}
    with pytest.raises(PlanError, match=r"^phases\.train\.po\.views\.second\[1\] \(Norm"):
        open_run(volume, views, phases=phases)
    with pytest.raises(ConfigError, match=r"^po\.views\.second\[0\]\.size"):
        open_run(volume, {"second": [{**CROP, "size": -1}]})


def test_the_plan_shows_every_chain_and_what_runs_it(volume: Path) -> None:
    with open_run(volume, VIEWS) as run:
        text = plan_text(run.plan)
        assert "scratch of views and mixing" in run.plan.memory_entries
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "RandomHorizontalFlip(p=0.5)" in lines["po.views.second[1]"]
    assert "FP16[12x12x3]" in lines["po.views.second[2]"]
    assert "from epoch 2 size=9" in lines["po.views.small[0]"]
    assert "second FP16[4x12x12x4], small UINT8[4x6x6x3]" in lines["station"]
    assert "from epoch 2 on: images FP16[12x12x3], second FP16[12x12x3], small UINT8[9x9x3]" in text


def test_views_are_in_the_fingerprint_and_only_where_they_are(volume: Path) -> None:
    found = []
    turned = dict(reversed(VIEWS.items()))
    for views in ({}, VIEWS, turned, {"second": VIEWS["second"]}, {"other": VIEWS["second"]}):
        with open_run(volume, views) as run:
            found.append(run.plan.fingerprint())
    assert "views" not in found[0]
    assert len({str(one.get("views")) for one in found}) == 5
    assert len({one["po"] for one in found}) == 1


def test_only_training_has_views_unless_another_phase_says_so(volume: Path) -> None:
    val = {"po": {"views": {"large": [{**CROP, "size": 20}]}}}
    phases = {"train": None, "test": None, "val": val}
    with open_run(volume, VIEWS, phases=phases) as run:
        found = {
            phase: {name for batch in run.epoch(0, phase) for name in batch.fields}
            for phase in phases
        }
        slots = run.plan.memory.region_tensors(Region.I_B_DATA)
    assert found == {"train": {"second", "small"}, "test": set(), "val": {"large"}}
    assert [tensor.name for tensor in slots] == ["images", "second", "small", "large"]


def test_one_run_may_have_views_and_mixed_batches(volume: Path) -> None:
    tree = tree_of(volume, VIEWS)
    with dtsflow.open(tree) as run:
        plain = rows_of(run, 0)
    tree["po"] |= {"batch": [{"_target_": "dtsflow.po.Mixup"}]}
    with dtsflow.open(tree) as run:
        mixed = rows_of(run, 0)
    assert {place: row[1:] for place, row in mixed.items()} == {
        place: row[1:] for place, row in plain.items()
    }
    assert mixed != plain


def test_the_command_line_takes_views_and_batch_operations(
    volume: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        *("plan", f"volume.path={volume}", "po=imagenet_train", "batch_size=8", "lanes=2"),
        "+po.views.small=[{_target_: dtsflow.po.Resize, size: 96, fit: square}]",
        "+po.batch=[{_target_: dtsflow.po.Mixup, alpha: 0.2}]",
    ]
    assert main(words) == 0
    told = capsys.readouterr().out
    assert "small UINT8[8x96x96x3], soft_labels FP32[8x4]" in told
    assert "Mixup(alpha=0.2)" in told
