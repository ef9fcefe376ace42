"""However blocks are read, a run delivers the same rows."""

import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtsflow
from dtsflow.cli.run import stream
from dtsflow.errors import BlockError, MemoryPlanError, PlanError, VolumeError
from dtsflow.pipeline.run import Run
from dtsflow.reader.order import Order, Shuffle, Tail
from dtsflow.report.report import peak_bytes
from dtsflow.testing import damage, jpeg, write_block_set, write_block_volume
from dtsflow.volume.format.header import BLOCK_BYTES

COUNTS = [7, 3, 0, 9, 1, 6, 8, 2, 5]
BLOCKS = [
    [(jpeg(20 + (7 * b + i) % 9, 24, seed=100 * b + i), b % 3) for i in range(count)]
    for b, count in enumerate(COUNTS)
]


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    return write_block_volume(tmp_path / "x.dts", BLOCKS)


def config(volume: Path, **more: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "experiment": "imagenet_train",
        "volume": {"path": volume},
        "batch_size": 8,
        "lanes": 4,
        "tail": "pad",
        "epochs": 2,
        "consumer": "digest",
        "po": {
            "operations": [
                {"_target_": "dtsflow.po.RandomResizedCrop", "size": 12},
                {"_target_": "dtsflow.po.Normalize", "preset": "imagenet", "dtype": "FP16"},
            ]
        },
    }
    return base | more


def digests(volume: Path, *overrides: str, **more: Any) -> list[dict[str, Any]]:
    with dtsflow.open(config(volume, **more), *overrides) as run:
        stream(run)
        found: list[dict[str, Any]] = run.results["digest"]["epochs"]
    return found


@pytest.mark.parametrize("tail", ["pad", "drop", "wrap"])
@pytest.mark.parametrize("shuffle", ["none", "blocks"])
def test_readers_workers_and_threads_deliver_the_same(
    volume: Path, tail: str, shuffle: str
) -> None:
    words = (f"reader.shuffle={shuffle}", f"reader.window_bytes={8 * BLOCK_BYTES}")
    wanted = digests(volume, *words, "reader.mode=resident", "workers=1", tail=tail)
    for mode, workers, threads in itertools.product(("resident", "streaming"), (1, 8), (1, 8)):
        more = (f"reader.mode={mode}", f"workers={workers}", f"reader.io_threads={threads}")
        assert digests(volume, *words, *more, tail=tail) == wanted


def test_the_plan_says_how_it_reads_and_why(volume: Path) -> None:
    small = "reader.window_bytes=1"
    for words, mode, what in (
        ((), "resident", "resident blocks"),
        (("reader=streaming",), "streaming", "streaming windows"),
        (("memory.limit=100000000",), "streaming", "streaming windows"),
    ):
        with dtsflow.open(config(volume, lanes=1), *words, small) as run:
            assert run.plan.reading["train"][0] == mode
            assert what in run.plan.memory_entries
            list(run.epoch(0))


def test_streaming_is_no_part_of_the_digest_of_a_plan(volume: Path) -> None:
    plans = []
    for mode in ("resident", "streaming"):
        with dtsflow.open(config(volume), f"reader={mode}") as run:
            plans.append((run.plan.digest(), run.plan.fingerprint()))
    assert plans[0] == plans[1]


def test_a_full_shuffle_is_refused_where_it_does_not_fit(volume: Path) -> None:
    with pytest.raises(MemoryPlanError, match="resident blocks"):
        dtsflow.open(config(volume), "reader.shuffle=full", "memory.limit=100000000")
    with pytest.raises(PlanError, match="shuffle=full takes samples from all blocks"):
        dtsflow.open(config(volume), "reader.shuffle=full", "reader=streaming")


@pytest.mark.parametrize("mode", ["resident", "streaming"])
def test_no_flipped_bit_is_delivered(
    tmp_path: Path, write_indexed: Callable[..., Path], mode: str
) -> None:
    path = write_indexed(tmp_path / "x.dts", BLOCKS[:2])
    rng = np.random.default_rng(0)
    whole = np.fromfile(path, np.uint8)
    for _ in range(25):
        place = int(rng.integers(BLOCK_BYTES, 3 * BLOCK_BYTES))
        if rng.random() < 0.5:  # most of a small block is zeros behind its samples
            place = BLOCK_BYTES * int(rng.integers(1, 3)) + int(rng.integers(0, 12_000))
        damage(path, place, bytes([whole[place] ^ (1 << int(rng.integers(8)))]))
        with (
            dtsflow.open(config(path), f"reader={mode}", "lanes=1", "batch_size=10") as run,
            pytest.raises(BlockError, match=f"block {place // BLOCK_BYTES - 1} of"),
        ):
            list(run.epoch(0))
        damage(path, place, bytes([whole[place]]))
    with dtsflow.open(config(path), f"reader={mode}") as run:
        assert sum(int(batch.valid.sum()) for batch in run.epoch(0)) == 10


GRID = [(26, 6, 4), (10, 3, 4), (34, 16, 2), (7, 1, 2), (1003, 8, 3), (3, 4, 1), (0, 4, 1)]


@pytest.mark.parametrize("tail", list(Tail))
@pytest.mark.parametrize(("samples", "per_rank", "ranks"), GRID)
def test_ranks_have_equal_steps_and_deliver_each_sample_once(
    samples: int, per_rank: int, ranks: int, tail: Tail
) -> None:
    """The pure order, asked as each of several ranks would."""
    batch = per_rank * ranks
    counts = np.array([samples // 3, samples - samples // 3], np.int64)

    def make() -> Order:
        return Order(counts, batch, ranks, seed=1, tail=tail)

    if samples == 0:
        with pytest.raises(PlanError, match="holds no samples"):
            make()
        return
    if tail is Tail.DROP and samples < batch:
        with pytest.raises(PlanError, match="leaves no batch"):
            make()
        return
    order = make()
    wanted = samples // batch if tail is Tail.DROP else -(-samples // batch)
    assert order.steps == wanted
    delivered: list[int] = []
    for rank in range(ranks):
        rows = order.epoch(0).rows(0, order.steps, order.lanes_of(rank, ranks))
        assert len(rows) == order.steps * per_rank
        assert np.array_equal(rows.valid, rows.ids >= 0)
        delivered += rows.ids[rows.valid].tolist()
    if tail is Tail.PAD:
        assert sorted(delivered) == list(range(samples))
    elif tail is Tail.DROP:
        assert len(set(delivered)) == len(delivered) == order.steps * batch
    else:
        assert len(delivered) == order.steps * batch
        assert set(delivered) == set(range(samples))


def test_a_large_index_is_planned_from_numbers_alone() -> None:
    counts = np.full(8768, 146, np.int64)
    order = Order(counts, 256, 16, seed=1, window=2)
    epoch = order.epoch(0)
    first = epoch.rows(0, 1, range(16))
    last = epoch.rows(order.steps - 2, 1, range(16))
    assert first.valid.all()
    assert last.valid.all()
    assert order.shuffle is Shuffle.BLOCKS
    blocks = {
        block for lane in range(16) for leg in epoch.legs(range(1), lane) for block in leg.blocks
    }
    assert len(blocks) == 16  # the first batch needs one block of each lane


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux lists descriptors")
def test_fifty_streamed_epochs_hold_what_two_do(volume: Path) -> None:
    def held() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()  # noqa: PTH208

    small = (f"reader.window_bytes={4 * BLOCK_BYTES}", "workers=3")
    with dtsflow.open(config(volume), "reader=streaming", *small) as run:
        for epoch in range(2):
            list(run.epoch(epoch))
        peak = peak_bytes()
        before = held()
        for epoch in range(2, 50):
            for batch in run.epoch(epoch):
                if epoch % 5 == 0 and batch.step == 2:
                    break
        # IO threads hold one descriptor each, of whatever they read last.
        files, threads = held()
        assert threads == before[1]
        assert files <= before[0] + 4
        assert peak_bytes() - peak < 16 << 20


@pytest.mark.parametrize("mode", ["resident", "streaming"])
@pytest.mark.parametrize("what", ["cut", "removed"])
def test_a_file_that_is_cut_or_removed_meanwhile_is_named(
    tmp_path: Path, mode: str, what: str
) -> None:
    paths = write_block_set(tmp_path, "s", [[block] for block in BLOCKS if block])
    words = (f"reader={mode}", "reader.shuffle=none", "reader.window_bytes=1")
    config_of_set = config(tmp_path / "s-*.dts", batch_size=1, lanes=1)
    with dtsflow.open(config_of_set, *words, "reader.io_threads=1") as run:
        plan = run.plan
    if what == "cut":
        os.truncate(paths[4], BLOCK_BYTES + 5000)
    else:
        paths[4].unlink()
    with Run.open(plan) as run, pytest.raises(VolumeError, match=r"s-00005-of-00008\.dts"):
        list(run.epoch(0))
