"""What a device feed does when one side doesn't go on."""

import gc
import threading
import weakref
from collections.abc import Callable

import pytest
from fake_cuda import FakeCuda

from dtsflow.arena.arena import Form
from dtsflow.arena.device_arena import DeviceArena, DeviceFeed
from dtsflow.errors import ClosedError, DecodeError, StallError, StationError
from dtsflow.memory.plan import MemoryPlan
from dtsflow.spec import ImageSpec
from dtsflow.station.double_buffer import DoubleBuffer
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape

FORMS = {"train": Form(2, ImageSpec(2, 2, 3, DType.FP32), 3)}


@pytest.fixture
def cuda() -> FakeCuda:
    return FakeCuda()


@pytest.fixture
def arena(cuda: FakeCuda) -> DeviceArena:
    plan = MemoryPlan().input_buffers(batch=2, image=Shape(1, 2, 2, 3), dtype=DType.FP32)
    return DeviceArena(plan.finalize(), FORMS, cuda)


def begin(
    arena: DeviceArena,
    double_buffer: DoubleBuffer,
    *,
    timeout_s: float = 60.0,
    progress: Callable[[], str] = lambda: "",
) -> DeviceFeed:
    return arena.feed("train", double_buffer, timeout_s=timeout_s, progress=progress, poison=False)


def fill(double_buffer: DoubleBuffer) -> None:
    """Say, as a worker, that one batch is written."""
    claimed = double_buffer.claim()
    assert claimed is not None
    double_buffer.finish(claimed[0])


def test_workers_that_stall_are_named(arena: DeviceArena) -> None:
    double_buffer = DoubleBuffer(range(2), chunks=1)
    feed = begin(arena, double_buffer, timeout_s=0.01, progress=lambda: "The disk is slow.")
    with pytest.raises(StallError, match=r"The workers stalled: batch 0 .* The disk is slow\."):
        feed.take()
    feed.end()


def test_a_consumer_that_pauses_for_longer_than_the_limit_goes_on(arena: DeviceArena) -> None:
    double_buffer = DoubleBuffer(range(2), chunks=1)
    late = threading.Event()

    def progress() -> str:
        late.set()
        return ""

    feed = begin(arena, double_buffer, timeout_s=0.01, progress=progress)
    assert late.wait(60)  # the limit has passed and nobody had asked for the batch
    fill(double_buffer)
    assert feed.take().step == 0
    feed.end()


def test_a_device_that_stalls_is_named_by_this_pass_and_the_next(
    arena: DeviceArena, cuda: FakeCuda
) -> None:
    cuda.runs.clear()
    double_buffer = DoubleBuffer(range(2), chunks=1)
    feed = begin(arena, double_buffer, timeout_s=0.01)
    fill(double_buffer)
    feed.take()
    feed.give_back()
    with pytest.raises(StallError, match=r"The device stalled: the copy of batch 0 has not ended"):
        feed.take()
    with pytest.raises(StallError, match="a copy of the pass before has not ended"):
        begin(arena, DoubleBuffer(range(2), chunks=1), timeout_s=0.01)
    cuda.runs.set()
    again = DoubleBuffer(range(2), chunks=1)
    feed = begin(arena, again)
    fill(again)
    assert feed.take().step == 0
    feed.end()


def test_a_failed_copy_names_the_batch_and_the_device(arena: DeviceArena, cuda: FakeCuda) -> None:
    double_buffer = DoubleBuffer(range(4, 6), chunks=1)
    feed = begin(arena, double_buffer)
    cuda.fails = True
    fill(double_buffer)
    with pytest.raises(StationError, match=r"Batch 4 did not get to the device\. device 0"):
        feed.take()
    feed.end()


def test_closing_the_turns_wakes_a_consumer(arena: DeviceArena) -> None:
    double_buffer = DoubleBuffer(range(2), chunks=1)
    feed = begin(arena, double_buffer)
    stopper = threading.Thread(target=double_buffer.close)
    stopper.start()
    with pytest.raises(ClosedError, match="has ended"):
        feed.take()
    stopper.join()
    feed.end()
    arena.close()


def test_closing_the_arena_ends_the_thread_of_a_pass_that_nobody_ended(
    arena: DeviceArena,
) -> None:
    double_buffer = DoubleBuffer(range(4), chunks=1)
    feed = begin(arena, double_buffer)
    fill(double_buffer)
    feed.take()
    arena.close()
    assert not feed.thread.is_alive()
    assert double_buffer.is_closed


def test_closing_without_waiting_ends_the_thread_later(arena: DeviceArena, cuda: FakeCuda) -> None:
    cuda.runs.clear()
    double_buffer = DoubleBuffer(range(4), chunks=1)
    feed = begin(arena, double_buffer)
    fill(double_buffer)
    feed.take()
    assert list(arena.threads) == [feed.thread]
    arena.close(wait=False)
    cuda.runs.set()
    feed.thread.join()
    with pytest.raises(ClosedError):
        feed.take()


def test_a_pass_that_failed_can_be_collected_with_all_that_its_frames_hold(
    arena: DeviceArena,
) -> None:
    class Held:
        pass

    def fails() -> "weakref.ref[Held]":
        held = Held()
        double_buffer = DoubleBuffer(range(2), chunks=1)
        feed = begin(arena, double_buffer)
        double_buffer.fail(0, DecodeError("no image"))
        with pytest.raises(DecodeError):
            feed.take()
        feed.end()
        feed.thread.join()
        return weakref.ref(held)

    held = fails()
    gc.collect()
    assert held() is None
