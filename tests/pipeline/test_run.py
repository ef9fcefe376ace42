import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtsflow
from dtsflow.config.compose import compose
from dtsflow.consumer.consumer import PhaseSetting, Setting
from dtsflow.consumer.digest import Digest
from dtsflow.decode.pillow import PillowDecoder
from dtsflow.errors import (
    BlockError,
    ClosedError,
    DecodeError,
    MemoryPlanError,
    PlanError,
    StallError,
)
from dtsflow.pipeline.build import build
from dtsflow.pipeline.pipeline import Pipeline
from dtsflow.pipeline.planner import plan_run
from dtsflow.pipeline.run import Run
from dtsflow.ranks.group import Rank
from dtsflow.reader.order import Shuffle, Tail
from dtsflow.testing import jpeg, write_block_volume, write_small_set
from dtsflow.volume.datasets.config import Dts
from dtsflow.volume.format.header import Kind
from dtsflow.volume.format.io import read_into

OPERATIONS = [
    {"_target_": "dtsflow.po.RandomResizedCrop", "size": 16},
    {"_target_": "dtsflow.po.RandomHorizontalFlip"},
    {"_target_": "dtsflow.po.Normalize", "preset": "imagenet", "dtype": "FP16"},
]


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """26 images in blocks of 9, 0, 12 and 5."""
    images = [(jpeg(20 + i, 30, seed=i), i % 4) for i in range(26)]
    blocks = [images[:9], [], images[9:21], images[21:]]
    return write_block_volume(tmp_path / "tiny_train_lv0.dts", blocks)


def open_run(path: Path, **values: Any) -> Run:
    tree: dict[str, Any] = {
        "volume": {"path": str(path)},
        "po": {"operations": OPERATIONS},
        "station": {"poison": True, "timeout_s": 20},
        "batch_size": 6,
        "workers": 2,
    }
    return dtsflow.open({**tree, **values})


def digest(run: Run, *epochs: int, start_step: int = 0) -> dict[str, Any]:
    sink = Digest().open(Setting(None, {"train": PhaseSetting(0)}))
    for epoch in epochs:
        for batch in run.epoch(epoch, start_step=start_step):
            sink.take(batch)
    found: dict[str, Any] = sink.results()["digest"]
    return found


def threads() -> set[str]:
    return {t.name for t in threading.enumerate() if t.name.startswith("dtsflow")}


def test_batches_have_the_planned_arrays(volume: Path) -> None:
    with open_run(volume) as run:
        batches = run.epoch(0)
        assert len(batches) == 5
        seen = 0
        for batch in batches:
            assert batch.images.shape == (6, 16, 16, 3)
            assert batch.padded.shape == (6, 16, 16, 4)
            assert batch.images.dtype == np.float16
            assert batch.labels.dtype == np.int32
            assert not batch.padded[..., 3].any()
            assert (batch.labels[batch.valid] == batch.sample_ids[batch.valid] % 4).all()
            assert batch.labels[~batch.valid].tolist() == [-1] * int((~batch.valid).sum())
            assert not batch.padded[~batch.valid].any()
            assert (batch.phase, batch.epoch, batch.step) == ("train", 0, seen)
            seen += 1
        assert seen == 5


def test_pixels_depend_on_neither_workers_nor_io_threads_nor_chunks(volume: Path) -> None:
    found = []
    for workers, io_threads in ((1, 1), (8, 1), (3, 8)):
        with open_run(volume, workers=workers, reader={"io_threads": io_threads}) as run:
            found.append(digest(run, 0, 1))
    assert found[0] == found[1] == found[2]
    assert found[0]["epochs"][0]["sequence"] != found[0]["epochs"][1]["sequence"]


def test_an_epoch_read_in_parts_or_again_is_the_same(volume: Path) -> None:
    with open_run(volume) as run:
        whole = digest(run, 0)
        digest(run, 1)
        parts = 0
        for step in range(5):
            for batch in run.epoch(0, start_step=step):
                sink = Digest().open(Setting(None, {"train": PhaseSetting(0)}))
                sink.take(batch)
                parts += int(sink.results()["digest"]["sequence"], 16)
                break
        assert f"{parts % 2**256:064x}" == whole["sequence"]
        assert digest(run, 0) == whole


def test_one_thread_for_everything_makes_no_deadlock(volume: Path) -> None:
    with open_run(volume, workers=1, reader={"io_threads": 1}, batch_size=1) as run:
        for epoch in range(20):
            assert sum(len(b) for b in run.epoch(epoch)) == 26


@pytest.mark.parametrize("tail", ["pad", "drop", "wrap"])
@pytest.mark.parametrize("batch_size", [6, 3, 16, 4])
@pytest.mark.parametrize("samples", [26, 10, 34, 7, 3, 1])
def test_every_sample_arrives_with_the_right_mask(
    tmp_path: Path, samples: int, batch_size: int, tail: str
) -> None:
    path = write_small_set(tmp_path / "mnist_train.dts", Kind.MNIST, samples)
    values = {"po": {"operations": []}, "batch_size": batch_size, "tail": tail}
    if tail == "drop" and samples < batch_size:
        with pytest.raises(PlanError, match=f"{samples} samples are fewer than"):
            open_run(path, **values)
        return
    with open_run(path, **values) as run, dtsflow.volume.open(path) as stored:
        delivered: list[int] = []
        for batch in run.epoch(0):
            for row in np.flatnonzero(batch.valid):
                sample = stored[int(batch.sample_ids[row])]
                assert batch.images[row].tobytes() == bytes(sample.data)
                assert batch.labels[row] == sample.label
            delivered += batch.sample_ids[batch.valid].tolist()
        if tail == "pad":
            assert sorted(delivered) == list(range(samples))
        elif tail == "drop":
            assert len(delivered) == len(set(delivered)) == samples // batch_size * batch_size
        else:
            assert set(delivered) == set(range(samples))
            assert len(delivered) == -(-samples // batch_size) * batch_size


Stored = tuple[Path, list[tuple[bytes, int]]]  # a volume and its samples


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Stored]:
    """Volumes of blocks with so many samples, a third of them in the first block."""
    folder = tmp_path_factory.mktemp("grid")

    @cache
    def make(samples: int) -> Stored:
        images = [(jpeg(8, 8, seed=i), i % 5) for i in range(samples)]
        first = samples // 3
        path = folder / f"x{samples}.dts"
        return write_block_volume(path, [images[:first], [], images[first:]]), images

    return make


@pytest.fixture(scope="module")
def whole_images() -> Pipeline:
    """Delivers images of 8 x 8 pixels as they are."""
    operations = [{"_target_": "dtsflow.po.CenterCrop", "size": 8}]
    values = {"volume": {"path": "none"}, "po": {"operations": operations}, "workers": 2}
    return build(compose(values={**values, "station": {"poison": True}}).values)


@pytest.mark.parametrize("shuffle", Shuffle)
@pytest.mark.parametrize("tail", Tail)
@pytest.mark.parametrize("batch_size", [6, 3, 16, 4])
@pytest.mark.parametrize("samples", [26, 10, 34, 7, 3, 1])
def test_every_image_of_a_block_volume_arrives_with_the_right_mask(
    stored: Callable[[int], Stored],
    whole_images: Pipeline,
    samples: int,
    batch_size: int,
    tail: Tail,
    shuffle: Shuffle,
) -> None:
    path, images = stored(samples)
    phase = whole_images.phases["train"]
    reader = replace(phase.reader, shuffle=shuffle)
    phase = replace(phase, volume=Dts(str(path)), reader=reader)
    phase = replace(phase, batch_size=batch_size, tail=tail)
    pipeline = replace(whole_images, phases={"train": phase})
    if tail is Tail.DROP and samples < batch_size:
        with pytest.raises(PlanError, match=f"{samples} samples are fewer than"):
            plan_run(pipeline, Rank(0, 1))
        return
    decode = PillowDecoder("ignore").decode
    delivered: list[int] = []
    rows = 0
    with Run.open(plan_run(pipeline, Rank(0, 1))) as run:
        for batch in run.epoch(0):
            assert batch.labels[~batch.valid].tolist() == [-1] * int((~batch.valid).sum())
            assert batch.sample_ids[~batch.valid].tolist() == [-1] * int((~batch.valid).sum())
            assert not batch.padded[~batch.valid].any()
            for row in np.flatnonzero(batch.valid):
                data, label = images[batch.sample_ids[row]]
                assert np.array_equal(batch.images[row], decode(data))
                assert batch.labels[row] == label
            delivered += batch.sample_ids[batch.valid].tolist()
            rows += len(batch)
    if tail is Tail.DROP:
        assert len(set(delivered)) == len(delivered) == rows == samples // batch_size * batch_size
        return
    assert rows == -(-samples // batch_size) * batch_size
    assert set(delivered) == set(range(samples))
    assert len(delivered) == (samples if tail is Tail.PAD else rows)


def test_addresses_never_move_and_zones_alternate(volume: Path) -> None:
    with open_run(volume) as run:
        seen: dict[int, set[int]] = {0: set(), 1: set()}
        for epoch in range(3):
            for batch in run.epoch(epoch):
                assert batch.zone == batch.step % 2
                seen[batch.zone].add(batch.images.ctypes.data)
                seen[batch.zone].add(batch.valid.ctypes.data)
        assert [len(addresses) for addresses in seen.values()] == [2, 2]


def test_a_late_reader_sees_poison_and_a_copy_stays(volume: Path) -> None:
    with open_run(volume) as run:
        batches = iter(run.epoch(0))
        first = next(batches)
        kept, view = first.compact(), first.images
        before = view.copy()
        next(batches)
        next(batches)
        assert not np.array_equal(view, before)
        assert np.array_equal(kept.images, before)
        assert kept.valid.all()


def test_compact_drops_missing_rows(volume: Path) -> None:
    with open_run(volume, batch_size=16) as run:
        last = [batch.compact() for batch in run.epoch(0)][-1]
        assert len(last) == 10
        assert last.images.shape == (10, 16, 16, 3)
        assert last.padded.shape == (10, 16, 16, 4)
        assert (last.sample_ids >= 0).all()


def test_the_first_batches_leave_before_the_last_block_is_read(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    offsets: list[int] = []

    def gated(descriptor: int, memory: Any, offset: int, path: Path, **stop: Any) -> bool:
        if offsets:
            gate.wait(20)
        offsets.append(offset)
        return read_into(descriptor, memory, offset, path, **stop)

    monkeypatch.setattr("dtsflow.reader.block_io.read_into", gated)
    with open_run(volume, batch_size=1, reader={"io_threads": 1}) as run:
        batches = iter(run.epoch(0))
        next(batches)
        assert not gate.is_set()
        gate.set()
        assert sum(1 for _ in batches) == 25


def fail_within(run: Run) -> None:
    with run:
        for _ in run.epoch(0):
            raise ZeroDivisionError


@pytest.mark.parametrize("how", ["break", "exception", "next pass", "close", "forget"])
def test_a_pass_that_is_left_early_ends_cleanly(volume: Path, how: str) -> None:
    began = time.monotonic()
    run = open_run(volume)
    if how == "exception":
        with pytest.raises(ZeroDivisionError):
            fail_within(run)
    elif how == "break":
        for _ in run.epoch(0):
            break
        assert sum(1 for _ in run.epoch(1)) == 5
    elif how == "next pass":
        first = iter(run.epoch(0))
        next(first)
        assert sum(1 for _ in run.epoch(1)) == 5
        with pytest.raises(ClosedError):
            next(first)
    elif how == "forget":
        collected = weakref.ref(run)
        suspended = iter(run.epoch(0))
        next(suspended)
        cycle: list[object] = [suspended]
        cycle.append(cycle)
        del run, suspended, cycle
        gc.collect()
        assert collected() is None
        assert not threads()
        return
    run.close()
    run.close()
    assert not threads()
    assert time.monotonic() - began < 10


def test_a_closed_run_says_so(volume: Path) -> None:
    run = open_run(volume)
    batches = iter(run.epoch(0))
    next(batches)
    run.close()
    with pytest.raises(ClosedError):
        next(batches)
    with pytest.raises(ClosedError, match="open the plan again"):
        next(iter(run.epoch(0)))


def test_two_runs_live_side_by_side(volume: Path) -> None:
    with open_run(volume) as one, open_run(volume, seed=1) as two:
        pairs = zip(one.epoch(0), two.epoch(0), strict=True)
        assert any(a.sample_ids.tolist() != b.sample_ids.tolist() for a, b in pairs)
        assert digest(one, 0) != digest(two, 0)


def test_a_damaged_image_is_named_and_ends_the_run(tmp_path: Path) -> None:
    images = [(jpeg(seed=i), 3) for i in range(8)]
    images[5] = (images[5][0][:200], 3)
    path = write_block_volume(tmp_path / "x.dts", [images])
    with open_run(path, batch_size=1, lanes=1, reader={"shuffle": "none"}) as run:
        batches = iter(run.epoch(0))
        for step in range(5):
            assert next(batches).step == step
        with pytest.raises(DecodeError, match=r"x\.dts.*block 0.*sample 5.*label 3, sample_id 5"):
            next(batches)
    assert not threads()


def test_a_block_damaged_after_planning_is_an_error(tmp_path: Path) -> None:
    path = write_block_volume(tmp_path / "x.dts", [[(jpeg(), 0)], [(jpeg(seed=1), 1)]])
    pipeline_run = open_run(path)
    plan = pipeline_run.plan
    pipeline_run.close()
    with path.open("r+b") as file:
        file.seek((2 << 24) + 4)
        file.write(b"\xff")
    with Run.open(plan) as run, pytest.raises(BlockError, match="block 1"):
        list(run.epoch(0))


def test_a_consumer_that_waits_too_long_learns_which_side_stalled(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()

    def stuck(*arguments: Any, **stop: Any) -> bool:
        gate.wait(20)
        return read_into(*arguments, **stop)

    monkeypatch.setattr("dtsflow.reader.block_io.read_into", stuck)
    with open_run(volume, station={"timeout_s": 0.2}) as run:
        with pytest.raises(StallError, match=r"workers stalled.*3 of 3 blocks are not read"):
            next(iter(run.epoch(0)))
        gate.set()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda run: run.epoch(0, phase="val"), "no phase 'val'"),
        (lambda run: run.epoch(-1), "epoch=-1"),
        (lambda run: run.epoch(0, start_step=6), "start_step=6.*5 steps"),
    ],
)
def test_impossible_passes_are_refused(
    volume: Path, ask: Callable[[Run], object], message: str
) -> None:
    with open_run(volume) as run, pytest.raises(PlanError, match=message):
        ask(run)


def test_a_plan_over_the_memory_limit_is_refused_before_anything_starts(volume: Path) -> None:
    with pytest.raises(MemoryPlanError, match=r"resident blocks.*zones"):
        open_run(volume, memory={"limit": 1 << 20})
    assert not threads()


def test_the_counters_count(volume: Path) -> None:
    with open_run(volume) as run:
        digest(run, 0, 1)
        report = run.report()
    assert report["images"] == 52
    assert report["steps"] == 10
    assert report["images_per_s"] > 0
    assert sum(report["stages"][stage] for stage in ("decode", "po", "native")) > 0
    assert report["plan_bytes"] == run.plan.total_bytes > 3 << 24


SCRIPT = """
import sys, time, dtsflow
run = dtsflow.open({{"volume": {{"path": {path!r}}}, "batch_size": 2, "workers": 4,
    "po": {{"operations": [{{"_target_": "dtsflow.po.CenterCrop", "size": 16}}]}}}})
batches = iter(run.epoch(0))
next(batches)
def ready(): print("ready", flush=True)
{then}
"""


# Ready is said inside the try, or the signal could come before it; and one that comes
# just before a single long sleep would not end it.
LOOP = """
try:
    ready()
    while True: time.sleep(0.01)
except KeyboardInterrupt:
    sys.exit(7)
"""


@pytest.mark.parametrize(
    ("then", "status"),
    [
        ("ready()\nsys.exit(0)", 0),
        ("ready()\nraise SystemExit(3)", 3),
        (LOOP, 7),
    ],
)
def test_a_process_that_never_closes_its_run_ends_within_two_seconds(
    volume: Path, then: str, status: int
) -> None:
    script = SCRIPT.format(path=str(volume), then=then)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if "sleep" in then:
            process.send_signal(2)
        assert process.wait(timeout=2) == status


def test_arrays_go_to_torch_without_a_copy(volume: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    with open_run(volume) as run:
        batch = next(iter(run.epoch(0)))
        images = torch.from_dlpack(batch.images)
        assert images.data_ptr() == batch.images.ctypes.data
        assert images.dtype == torch.float16
        assert images.permute(0, 3, 1, 2).stride()[1] == 1
        assert torch.from_dlpack(batch.labels).dtype == torch.int32
