"""How runs end, whatever happens to them: no thread, file or byte stays behind."""

import gc
import json
import logging
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtsflow
from dtsflow.errors import BlockError, ClosedError, VolumeError
from dtsflow.pipeline.phase_plan import PhasePlan
from dtsflow.pipeline.run import Run
from dtsflow.pipeline.run_folder import RunFolder
from dtsflow.reader import block_io
from dtsflow.reader.resident import ResidentStore
from dtsflow.station.engine import Engine
from dtsflow.station.filler import Filler
from dtsflow.station.row_cache import RowCache
from dtsflow.station.workers import Workers
from dtsflow.testing import damage, jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import BLOCK_BYTES, Kind
from dtsflow.volume.format.io import read_into

LOGGER = logging.getLogger("dtsflow")


@pytest.fixture
def digits(workdir: Path) -> Path:
    """40 raw digits: all the machinery, and next to no work."""
    return write_small_set(workdir / "mnist_train.dts", Kind.MNIST, 40)


def open_run(path: Path, **values: Any) -> Run:
    tree: dict[str, Any] = {
        "volume": {"path": str(path)},
        "station": {"timeout_s": 20},
        "batch_size": 4,
        "workers": 2,
    }
    return dtsflow.open({**tree, **values})


def threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("dtsflow")]


def forget(run: Run, *held: object) -> weakref.ref[Run]:
    """Leave `run` in a reference cycle; the caller drops its own references."""
    cycle: list[object] = [run, *held]
    cycle.append(cycle)
    return weakref.ref(run)


class Hook:
    """Lets a test act inside the worker that is about to fill batch `step`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step: int, act: Callable[[], None]) -> None:
        fill = Filler.__call__

        def filling(filler: Filler, number: int, chunk: int) -> None:
            if number == step:
                act()
            fill(filler, number, chunk)

        monkeypatch.setattr(Filler, "__call__", filling)


def test_an_old_iterator_shows_nothing_of_the_pass_that_replaced_its_failed_one(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = threading.Event()

    def fail_once() -> None:
        if not failing.is_set():
            failing.set()
            raise ZeroDivisionError

    Hook(monkeypatch, 1, fail_once)
    with open_run(digits) as run:
        expected = [batch.sample_ids.tolist() for batch in run.epoch(1, start_step=2)]
        old = iter(run.epoch(0))
        first = next(old)
        assert failing.wait(10)
        new = iter(run.epoch(1, start_step=2))
        delivered = [next(new).sample_ids.tolist()]
        with pytest.raises(ClosedError):
            next(old)
        with pytest.raises(StopIteration):
            next(old)
        assert (first.epoch, first.step) == (0, 0)
        delivered += [batch.sample_ids.tolist() for batch in new]
        assert delivered == expected


def test_an_interrupt_while_a_pass_begins_leaves_a_run_that_goes_on_and_closes(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(digits)
    with monkeypatch.context() as patch:
        patch.setattr(Workers, "begin", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(iter(run.epoch(0)))
    assert sum(len(batch.compact()) for batch in run.epoch(1)) == 40
    run.close()
    assert not threads()


def _interrupted(*_arguments: object, **_options: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("obstacle", ["folder", "error"])
def test_a_report_that_cannot_be_written_leaves_no_thread(
    digits: Path, obstacle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(digits, name="mine")
    list(run.epoch(0))
    assert run.folder is not None
    if obstacle == "folder":
        (run.folder.path / "report.json").mkdir()
    else:
        monkeypatch.setattr(RunFolder, "write", _no_space)
    with pytest.raises(OSError, match=r"report|space"):
        run.close()
    assert not threads()
    assert run.folder.log_file not in LOGGER.handlers
    run.close()


def _no_space(*_arguments: object) -> None:
    raise OSError("no space left")


@pytest.mark.parametrize("error", [VolumeError("the disk fails"), OSError(5, "the disk fails")])
def test_a_disk_error_leaves_a_run_that_can_be_collected(
    digits: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_arguments: object, **_stop: object) -> bool:
        raise error

    monkeypatch.setattr(block_io, "read_into", failing)
    run = open_run(digits)
    with pytest.raises(type(error), match="the disk fails"):
        next(iter(run.epoch(0)))
    assert run._resources is not None
    shared = run._resources.workers._shared
    with shared.changed:  # a worker still in the failed pass holds its error
        assert shared.changed.wait_for(shared.is_idle, 5)
    collected = weakref.ref(run)
    error.__traceback__ = None  # this test holds the error that the disk raised
    del run, shared
    gc.collect()
    assert collected() is None
    assert not threads()


def test_a_run_collected_inside_its_worker_is_closed_there(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, gate = threading.Event(), threading.Event()
    where: list[str] = []

    def collect() -> None:
        entered.set()
        gate.wait(20)
        gc.collect()

    Hook(monkeypatch, 1, collect)
    gc.disable()
    try:
        run = open_run(digits, workers=3)
        batches = iter(run.epoch(0))
        next(batches)
        assert entered.wait(10)
        weakref.finalize(run, lambda: where.append(threading.current_thread().name))
        collected, running = forget(run, batches), threads()
        del run, batches
        gate.set()
        for thread in running:
            thread.join(5)
    finally:
        gc.enable()
    assert collected() is None
    assert where[0].startswith("dtsflow-worker")
    assert not threads()


def test_a_run_collected_inside_its_io_thread_is_closed_there(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_block_volume(workdir / "x.dts", [[(jpeg(seed=i), 0)] for i in range(3)])
    entered, gate = threading.Event(), threading.Event()

    def collecting(*arguments: Any, **stop: Any) -> bool:
        entered.set()
        gate.wait(20)
        gc.collect()
        return read_into(*arguments, **stop)

    monkeypatch.setattr(block_io, "read_into", collecting)
    gc.disable()
    try:
        po = {"operations": [{"_target_": "dtsflow.po.CenterCrop", "size": 8}]}
        run = open_run(path, po=po, reader={"io_threads": 1})
        assert entered.wait(10)
        collected, running = forget(run), threads()
        del run
        gate.set()
        for thread in running:
            thread.join(5)
    finally:
        gc.enable()
    assert collected() is None
    assert not threads()


COLLECT_UNDER_A_LOCK = """
import gc, sys, threading
import dtsflow
from dtsflow.station.double_buffer import DoubleBuffer

gc.disable()
delivered, entered, gate = threading.Event(), threading.Event(), threading.Event()
finish = DoubleBuffer.finish

def finishing(turns, step):
    if step == 1:
        delivered.wait(10)
        with turns._changed:  # a collection may come at any allocation, under any lock
            entered.set()
            gate.wait(10)
            gc.collect()
    finish(turns, step)

DoubleBuffer.finish = finishing
run = dtsflow.open({"volume": {"path": sys.argv[1]}, "batch_size": 4, "workers": 3})
batches = iter(run.epoch(0))
next(batches)
delivered.set()
assert entered.wait(10)
cycle = [run, batches]
cycle.append(cycle)
del run, batches, cycle
gate.set()
for thread in threading.enumerate():
    if thread.name.startswith("dtsflow"):
        thread.join(1)
print(sorted(t.name for t in threading.enumerate() if t.name.startswith("dtsflow")), flush=True)
"""


def test_a_run_collected_by_a_worker_that_holds_a_lock_does_not_wait_for_the_others(
    digits: Path,
) -> None:
    words = [sys.executable, "-c", COLLECT_UNDER_A_LOCK, str(digits)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=8)
    except subprocess.TimeoutExpired as stuck:
        pytest.fail(f"the threads wait for each other: {stuck.stdout!r}")
    assert done.stdout == "[]\n", done.stderr


def test_an_engine_that_cannot_be_made_ends_the_opening(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Engine] = []
    engine = PhasePlan.engine

    def failing(plan: PhasePlan, epoch: int, kept: RowCache | None) -> Engine:
        if len(made) == 2:
            raise ZeroDivisionError("no third engine")
        made.append(engine(plan, epoch, kept))
        return made[-1]

    monkeypatch.setattr(PhasePlan, "engine", failing)
    with pytest.raises(ZeroDivisionError, match="no third engine"):
        open_run(digits, workers=3, name="mine")
    assert not threads()
    assert not [h for h in LOGGER.handlers if isinstance(h, logging.FileHandler)]


def test_a_filler_that_cannot_be_made_reaches_the_consumer(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_arguments: object, **_options: object) -> None:
        raise ZeroDivisionError("no filler")

    with open_run(digits) as run:
        with monkeypatch.context() as patch:
            patch.setattr(Filler, "__init__", failing)
            with pytest.raises(ZeroDivisionError, match="no filler"):
                next(iter(run.epoch(0)))
        assert len(list(run.epoch(0))) == 10
    assert not threads()


@pytest.mark.parametrize("failing", [1, 2, 3, 4, 5])
def test_a_thread_that_does_not_start_leaves_no_other_running(
    workdir: Path, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers, then three IO threads, are started."""
    path = write_block_volume(workdir / "x.dts", [[(jpeg(seed=i), 0)] for i in range(3)])
    gate = threading.Event()
    started: list[str] = []
    start = threading.Thread.start

    def start_or_fail(thread: threading.Thread) -> None:
        started.append(thread.name)
        if len(started) == failing:
            raise RuntimeError("can't start new thread")
        start(thread)

    def slow(*_arguments: object, stop: Callable[[], bool]) -> bool:
        while not (stop() or gate.wait(0.01)):
            pass
        return False

    monkeypatch.setattr(block_io, "read_into", slow)
    monkeypatch.setattr(threading.Thread, "start", start_or_fail)
    po = {"operations": [{"_target_": "dtsflow.po.CenterCrop", "size": 8}]}
    with pytest.raises(RuntimeError, match="can't start new thread"):
        open_run(path, po=po, reader={"io_threads": 3}, name="mine")
    left = threads()
    gate.set()
    for thread in left:
        thread.join(5)
    assert not left
    assert not [h for h in LOGGER.handlers if isinstance(h, logging.FileHandler)]


def test_a_run_closed_while_a_pass_begins_ends_both(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, gate = threading.Event(), threading.Event()
    ended: list[str] = []

    def stuck() -> None:
        entered.set()
        gate.wait(20)

    Hook(monkeypatch, 1, stuck)
    run = open_run(digits)
    old = iter(run.epoch(0))
    next(old)
    assert entered.wait(10)
    settle = Workers.settle
    beginning = threading.Event()

    def begins(*arguments: Any, **options: Any) -> None:
        beginning.set()
        settle(*arguments, **options)

    monkeypatch.setattr(Workers, "settle", begins)

    def ask() -> None:
        try:
            next(iter(run.epoch(1)))
        except ClosedError:
            ended.append("closed")

    both = [threading.Thread(target=ask), threading.Thread(target=run.close)]
    both[0].start()
    assert beginning.wait(10)
    both[1].start()
    gate.set()
    for thread in both:
        thread.join(5)
        assert not thread.is_alive()
    assert ended == ["closed"]
    assert not threads()


def test_a_run_closed_when_its_workers_have_settled_is_a_closed_one(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(digits)
    settle = Workers.settle

    def settle_and_close(workers: Workers, timeout_s: float) -> None:
        settle(workers, timeout_s)
        run.close()

    monkeypatch.setattr(Workers, "settle", settle_and_close)
    with pytest.raises(ClosedError, match="The run is closed"):
        next(iter(run.epoch(0)))
    assert not threads()


def test_one_damaged_block_fails_only_the_batches_that_need_it(workdir: Path) -> None:
    blocks = [[(jpeg(seed=4 * b + i), b) for i in range(4)] for b in range(3)]
    path = write_block_volume(workdir / "x.dts", blocks)
    values = {
        "po": {"operations": [{"_target_": "dtsflow.po.CenterCrop", "size": 8}]},
        "reader": {"shuffle": "none", "io_threads": 1},
        "batch_size": 2,
        "lanes": 1,
    }
    run = open_run(path, **values)
    plan = run.plan
    run.close()
    damage(path, 2 * BLOCK_BYTES + 4, b"\xff")  # block 1
    with Run.open(plan) as run:
        for _ in range(2):
            batches = iter(run.epoch(0))
            assert [next(batches).labels.tolist() for _ in range(2)] == [[0, 0], [0, 0]]
            with pytest.raises(BlockError, match="block 1"):
                next(batches)
            rest = [batch.labels.tolist() for batch in run.epoch(0, start_step=4)]
            assert rest == [[2, 2], [2, 2]]
    assert not threads()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux lists descriptors")
def test_descriptors_and_threads_are_as_many_after_fifty_epochs(digits: Path) -> None:
    def held() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()  # noqa: PTH208

    with open_run(digits, name="mine") as run:
        list(run.epoch(0))
        for thread in threads():
            if thread.name.startswith("dtsflow-io"):
                thread.join(5)
        before = held()
        for epoch in range(1, 51):
            for batch in run.epoch(epoch):
                if epoch % 2 and batch.step == 3:
                    break
            assert held() == before


def test_memory_is_free_once_a_run_is_closed_and_no_batch_is_kept(digits: Path) -> None:
    run = open_run(digits)
    batches = list(run.epoch(0))
    resources = run._resources
    assert resources is not None
    store, arena = resources.phases["train"].store, resources._arena
    assert arena is not None
    assert isinstance(store, ResidentStore)
    read, zones = (
        weakref.ref(store._shared.table.memory.base),
        weakref.ref(arena.zones["train"][0].slots.base),
    )
    del resources, store, arena
    kept = batches[-1].images
    before = kept.copy()
    run.close()
    del batches
    assert read() is None
    assert zones() is not None
    assert np.array_equal(kept, before)
    del kept
    assert zones() is None
    assert run.report()["images"] == 40


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="only Linux tells")
def test_a_closed_run_gives_its_bytes_back_to_the_system(workdir: Path) -> None:
    def resident_now() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    blocks = [[(jpeg(seed=b), b)] for b in range(6)]
    path = write_block_volume(workdir / "x.dts", blocks)
    po = {"operations": [{"_target_": "dtsflow.po.CenterCrop", "size": 8}]}
    before = resident_now()
    run = open_run(path, po=po, batch_size=2)
    list(run.epoch(0))
    assert run._resources is not None
    for thread in run._resources.phases["train"].store.threads:
        thread.join(10)
    assert resident_now() - before > 5 * BLOCK_BYTES
    run.close()
    assert resident_now() - before < BLOCK_BYTES


def test_the_log_of_an_abandoned_run_is_closed(digits: Path) -> None:
    run = open_run(digits, name="mine")
    batches = iter(run.epoch(0))
    next(batches)
    assert run.folder is not None
    log_file = run.folder.log_file
    assert log_file in LOGGER.handlers
    collected = forget(run, batches)
    del run, batches
    gc.collect()
    assert collected() is None
    assert log_file not in LOGGER.handlers
    assert getattr(log_file, "stream", None) is None
    assert not threads()
    assert not Path("runs/mine/report.json").exists()


def test_each_epoch_has_its_line_in_the_log(digits: Path) -> None:
    with open_run(digits, name="mine") as run:
        list(run.epoch(0))
        for _ in run.epoch(1, start_step=6):
            break
    lines = Path("runs/mine/rank0.log").read_text().splitlines()
    told = [line.partition("rank 0 INFO dtsflow.pipeline.run: ")[2] for line in lines]
    assert [line for line in told if line] == [
        "train, epoch 0: 10 of 10 steps",
        "train, epoch 1: 1 of 4 steps",
    ]


def test_the_command_line_logs_each_epoch_too(digits: Path) -> None:
    from dtsflow.cli.main import main  # noqa: PLC0415  # it configures logging

    words = [f"volume.path={digits}", "batch_size=20", "epochs=3", "max_steps=5", "name=mine"]
    assert main(words) == 0
    text = Path("runs/mine/rank0.log").read_text()
    assert [f"epoch {e}: {n} of 2 steps" in text for e, n in ((0, 2), (1, 2))] == [True] * 2
    assert "epoch 2: 1 of 1 steps" in text  # max_steps cut the pass


@pytest.mark.parametrize(
    "kind",
    [
        ZeroDivisionError,
        KeyboardInterrupt,
    ],
)
def test_a_failed_run_that_is_closed_by_hand_writes_no_report(
    digits: Path, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing() -> None:
        raise kind

    Hook(monkeypatch, 2, failing)
    run = open_run(digits, name="mine")
    with suppress(kind):
        list(run.epoch(0))
    run.close()
    assert not Path("runs/mine/report.json").exists()
    assert not threads()


def test_a_run_whose_pass_was_left_early_is_a_finished_one(digits: Path) -> None:
    run = open_run(digits, name="mine")
    for _ in run.epoch(0):
        break
    run.close()
    assert json.loads(Path("runs/mine/report.json").read_text())["steps"] == 1
