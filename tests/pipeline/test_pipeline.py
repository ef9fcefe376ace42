from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dtsflow.config.compose import compose
from dtsflow.errors import PlanError, VolumeError
from dtsflow.pipeline import planner as module
from dtsflow.pipeline.build import build
from dtsflow.pipeline.pipeline import Pipeline
from dtsflow.pipeline.planner import plan_run
from dtsflow.ranks.group import Rank
from dtsflow.reader.order import Shuffle
from dtsflow.tensor.dtype import DType
from dtsflow.testing import jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import BLOCK_BYTES, Kind

ONE = Rank(0, 1)


def pipeline_of(path: Path, *overrides: str) -> Pipeline:
    return build(compose([f"volume.path={path}", *overrides]).values)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    images = [(jpeg(seed=i), i) for i in range(6)]
    return write_block_volume(tmp_path / "x.dts", [images[:4], images[4:]])


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    return write_small_set(tmp_path / "mnist_test.dts", Kind.MNIST, 40)


def test_lanes_come_from_the_batch_and_never_from_the_ranks(photos: Path) -> None:
    pipeline = pipeline_of(photos, "po=imagenet_val", "batch_size=24")
    plans = [plan_run(pipeline, Rank(r, 3)) for r in range(3)]
    assert [plan.phases["train"].order.lanes for plan in plans] == [12] * 3
    assert [plan.phases["train"].lanes for plan in plans] == [range(4), range(4, 8), range(8, 12)]
    assert [plan.phases["train"].first_row for plan in plans] == [0, 8, 16]
    assert plan_run(pipeline_of(photos, "po=imagenet_val", "lanes=4", "batch_size=24"), ONE).phases[
        "train"
    ].lanes == range(4)


def test_a_pixel_set_takes_full_for_blocks(digits: Path, photos: Path) -> None:
    def shuffle(path: Path, *words: str) -> Shuffle:
        return (
            plan_run(pipeline_of(path, "po=imagenet_val", *words), ONE)
            .phases["train"]
            .order.shuffle
        )

    assert plan_run(pipeline_of(digits), ONE).phases["train"].order.shuffle is Shuffle.FULL
    assert (
        plan_run(pipeline_of(digits, "reader.shuffle=none"), ONE).phases["train"].order.shuffle
        is Shuffle.NONE
    )
    assert shuffle(photos) is Shuffle.BLOCKS
    assert shuffle(photos, "reader.shuffle=full") is Shuffle.FULL


def test_the_window_is_of_the_whole_job(photos: Path) -> None:
    words = ("po=imagenet_val", "batch_size=8", f"reader.window_bytes={24 * BLOCK_BYTES}")
    assert plan_run(pipeline_of(photos, *words), ONE).phases["train"].order.window == 3
    assert plan_run(pipeline_of(photos, *words, "lanes=2"), ONE).phases["train"].order.window == 12


def test_workers_are_the_cpus_of_the_node_divided_by_its_ranks(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "cpu_limit", lambda: 7)
    ranks = [Rank(0, 16, local_size=n) for n in (1, 2, 4, 8)]
    plans = [plan_run(pipeline_of(digits), rank).workers for rank in ranks]
    assert plans == [7, 3, 1, 1]
    assert plan_run(pipeline_of(digits), Rank(0, 16, local_size=4, cpu_share=3)).workers == 3
    assert plan_run(pipeline_of(digits, "workers=5"), ranks[3]).workers == 5


@pytest.mark.parametrize("rows", [1, 4, 37, 4099])
def test_chunks_cover_a_batch_and_give_every_worker_some(digits: Path, rows: int) -> None:
    words = (f"batch_size={rows}", "lanes=1", "workers=3")
    plan = plan_run(pipeline_of(digits, *words), ONE)
    assert (
        (plan.phases["train"].chunks - 1) * plan.phases["train"].chunk_rows
        < rows
        <= plan.phases["train"].chunks * plan.phases["train"].chunk_rows
    )
    # Two batches are in work at a time, so three workers have four chunks to take.
    assert 2 * plan.phases["train"].chunks >= (3 if rows > 1 else 2)


def test_the_memory_plan_holds_the_rows_of_one_rank(digits: Path) -> None:
    pipeline = pipeline_of(digits, "po=mnist", "batch_size=32")
    whole, half = plan_run(pipeline, ONE), plan_run(pipeline, Rank(1, 2))
    phases = whole.phases["train"], half.phases["train"]
    assert [phase.rows for phase in phases] == [32, 16]
    assert whole.memory.total_bytes > half.memory.total_bytes
    assert phases[1].specs[-1].dtype is not DType.UINT8 or phases[1].stored_channels == 1


def changed(pipeline: Pipeline, **values: Any) -> Pipeline:
    return replace(pipeline, phases={"train": replace(pipeline.phases["train"], **values)})


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda p: changed(p, batch_size=7, lanes=3), PlanError, "lanes=3 does not divide"),
        (lambda p: changed(p, batch_size=64, tail="drop"), PlanError, "leaves no batch"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused_while_planning(
    digits: Path, change: Callable[[Any], Pipeline], error: type[Exception], message: str
) -> None:
    pipeline = change(pipeline_of(digits))
    with pytest.raises(error, match=message):
        plan_run(pipeline, ONE)


def test_ranks_that_cannot_share_are_refused(digits: Path) -> None:
    with pytest.raises(PlanError, match="3 ranks cannot share 16 lanes"):
        plan_run(pipeline_of(digits, "batch_size=16"), Rank(0, 3))


def test_photos_without_a_size_at_the_end_are_refused(photos: Path) -> None:
    with pytest.raises(PlanError):
        plan_run(pipeline_of(photos, "po=none"), ONE)


def test_a_volume_that_is_not_there_is_named_when_planning_and_not_before(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path / "none.dts")
    with pytest.raises(VolumeError, match=r"none\.dts"):
        plan_run(pipeline, ONE)
