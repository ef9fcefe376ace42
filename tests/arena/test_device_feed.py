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
from dtsflow.station.double_buffer import Turns
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
    turns: Turns,
    *,
    timeout_s: float = 60.0,
    progress: Callable[[], str] = lambda: "",
) -> DeviceFeed:
    return arena.feed("train", turns, timeout_s=timeout_s, progress=progress, poison=False)


def fill(turns: Turns) -> None:
    """Say, as a worker, that one batch is written."""
    claimed = turns.claim()
    assert claimed is not None
    turns.finish(claimed[0])


def test_workers_that_stall_are_named(arena: DeviceArena) -> None:
    turns = Turns(range(2), chunks=1)
    feed = begin(arena, turns, timeout_s=0.01, progress=lambda: "The disk is slow.")
    with pytest.raises(StallError, match=r"The workers stalled: batch 0 .* The disk is slow\."):
        feed.take()
    feed.end()


def test_a_consumer_that_pauses_for_longer_than_the_limit_goes_on(arena: DeviceArena) -> None:
    turns = Turns(range(2), chunks=1)
    late = threading.Event()

    def progress() -> str:
        late.set()
        return ""

    feed = begin(arena, turns, timeout_s=0.01, progress=progress)
    assert late.wait(60)  # the limit has passed and nobody had asked for the batch
    fill(turns)
    assert feed.take().step == 0
    feed.end()


def test_a_device_that_stalls_is_named_by_this_pass_and_the_next(
    arena: DeviceArena, cuda: FakeCuda
) -> None:
    cuda.runs.clear()
    turns = Turns(range(2), chunks=1)
    feed = begin(arena, turns, timeout_s=0.01)
    fill(turns)
    feed.take()
    feed.give_back()
    with pytest.raises(StallError, match=r"The device stalled: the copy of batch 0 has not ended"):
        feed.take()
    with pytest.raises(StallError, match="a copy of the pass before has not ended"):
        begin(arena, Turns(range(2), chunks=1), timeout_s=0.01)
    cuda.runs.set()
    again = Turns(range(2), chunks=1)
    feed = begin(arena, again)
    fill(again)
    assert feed.take().step == 0
    feed.end()


def test_a_failed_copy_names_the_batch_and_the_device(arena: DeviceArena, cuda: FakeCuda) -> None:
    turns = Turns(range(4, 6), chunks=1)
    feed = begin(arena, turns)
    cuda.fails = True
    fill(turns)
    with pytest.raises(StationError, match=r"Batch 4 did not get to the device\. device 0"):
        feed.take()
    feed.end()


def test_closing_the_turns_wakes_a_consumer(arena: DeviceArena) -> None:
    turns = Turns(range(2), chunks=1)
    feed = begin(arena, turns)
    stopper = threading.Thread(target=turns.close)
    stopper.start()
    with pytest.raises(ClosedError, match="has ended"):
        feed.take()
    stopper.join()
    feed.end()
    arena.close()


def test_closing_the_arena_ends_the_thread_of_a_pass_that_nobody_ended(
    arena: DeviceArena,
) -> None:
    turns = Turns(range(4), chunks=1)
    feed = begin(arena, turns)
    fill(turns)
    feed.take()
    arena.close()
    assert not feed.thread.is_alive()
    assert turns.is_closed


def test_closing_without_waiting_ends_the_thread_later(arena: DeviceArena, cuda: FakeCuda) -> None:
    cuda.runs.clear()
    turns = Turns(range(4), chunks=1)
    feed = begin(arena, turns)
    fill(turns)
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
        turns = Turns(range(2), chunks=1)
        feed = begin(arena, turns)
        turns.fail(0, DecodeError("no image"))
        with pytest.raises(DecodeError):
            feed.take()
        feed.end()
        feed.thread.join()
        return weakref.ref(held)

    held = fails()
    gc.collect()
    assert held() is None
