"""That no batch is touched too early or too late, whatever runs when.

The station, the arena and a consumer run as tasks of a `Scheduler`, and the streams of
`FakeCuda` too. Everything is right under many seeds; and with any wait left out, some
seed shows a wrong batch, an endless wait or work on memory that is gone.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fake_cuda import CONSUMER, COPIES, FakeCuda
from fake_threads import DeadlockError, Scheduler

from dtsflow.arena import cuda, device_arena, upload
from dtsflow.arena import device_arena as device_feed
from dtsflow.arena.arena import Delivery, Form
from dtsflow.arena.device_arena import DeviceArena
from dtsflow.arena.staging import reserve_staging
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.po.normalize import Normalize
from dtsflow.spec import ImageSpec
from dtsflow.station import double_buffer as double_buffer_module
from dtsflow.station.double_buffer import ZONES, DoubleBuffer
from dtsflow.station.zone import Zone
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape
from dtsflow.tensor.tensor import DTensor, Tensor

ROWS, CHUNKS, STEPS = 4, 2, 5
NORMALIZE = Normalize(preset="cifar", dtype=DType.FP16)
SEEDS = range(100)
TRIES = range(400)


def forms(*, finished: bool) -> dict[str, Form]:
    finish = NORMALIZE.finish(3) if finished else None
    return {"train": Form(ROWS, ImageSpec(2, 3, 3, DType.FP16), 4, finish)}


def plan_of(batch_forms: dict[str, Form]) -> MemoryPlan:
    plan = MemoryPlan().input_buffers(batch=ROWS, image=Shape(1, 2, 3, 3), dtype=DType.FP16)
    plan.allocate(Region.S_SCALAR_INT32, Shape(1, 1, 1, 64), DType.INT32, "beside")
    reserve_staging(plan, batch_forms)
    return plan.finalize()


class Simulation:
    """Two passes over five batches; the first one is left with a batch in hand."""

    def __init__(self, seed: int, *, removed: str, finished: bool, poison: bool) -> None:
        self.scheduler = Scheduler(seed)
        self.cuda = FakeCuda(self.scheduler, removed=removed)
        self.finished = finished
        self.poison = poison
        self.wrong: list[str] = []
        self.working = 0

    def run(self) -> None:
        def main() -> None:
            self._main()
            self.cuda.drain()

        try:
            self.scheduler.run(main)
        except DeadlockError as deadlock:
            self.wrong.append(str(deadlock))
        self.wrong += self.cuda.errors

    def _main(self) -> None:
        batch_forms = forms(finished=self.finished)
        plan = plan_of(batch_forms)
        arena = DeviceArena(plan, batch_forms, self.cuda)
        self._transfer(arena, plan.region_tensors(Region.S_SCALAR_INT32)[0])
        self._epoch(arena, 0, range(STEPS), given_back=2)
        self._epoch(arena, 1, range(1, STEPS + 1), given_back=STEPS)
        arena.close()

    def _transfer(self, arena: DeviceArena, tensor: DTensor) -> None:
        sent, got = (Tensor.zeros(tensor.shape, tensor.dtype, pin=arena.pin) for _ in range(2))
        sent.array[:] = 7
        arena.transfer_to_rank(tensor, sent)
        sent.array[:] = 8
        arena.fetch_from_rank(tensor, got)
        self._expect("a tensor", got.array, np.full_like(got.array, 7))

    def _epoch(self, arena: DeviceArena, epoch: int, steps: range, given_back: int) -> None:
        double_buffer = DoubleBuffer(steps, CHUNKS)
        feed = arena.feed(
            "train", double_buffer, timeout_s=1e6, progress=lambda: "", poison=self.poison
        )
        # As Workers.settle: nobody writes for the pass before any more.
        self.scheduler.block_until(lambda: self.working == 0)
        for number in range(2):
            self.working += 1
            self.scheduler.spawn(
                f"worker {number}", lambda: self._work(double_buffer, arena.zones["train"], epoch)
            )
        for _ in range(given_back):
            self._use(feed.take(), epoch)
            feed.give_back()
        if given_back < len(steps):
            batch = feed.take()
            feed.end()
            self._use(batch, epoch)
        feed.end()

    def _work(self, double_buffer: DoubleBuffer, zones: tuple[Zone, Zone], epoch: int) -> None:
        while (claimed := double_buffer.claim()) is not None:
            step, chunk = claimed
            zone, rows = zones[step % ZONES], slice(chunk * 2, chunk * 2 + 2)
            for array, value in self._parts(zone, epoch, step):
                self.scheduler.switch()
                array[rows] = value
            if self._missing(step) // 2 == chunk:
                zone.clear_rows(slice(self._missing(step), self._missing(step) + 1))
            double_buffer.finish(step)
        self.working -= 1

    def _parts(self, zone: Zone, epoch: int, step: int) -> Iterator[tuple[Any, Any]]:
        yield zone.images, shade(epoch, step)
        yield zone.padded[..., 3:], 0
        yield zone.labels, shade(epoch, step)
        yield zone.valid, True
        yield zone.sample_ids, shade(epoch, step)

    def _missing(self, step: int) -> int:
        """The row of a batch that no sample is in."""
        return step % ROWS

    def _use(self, batch: Delivery, epoch: int) -> None:
        """Give the consumer's stream the work of looking at a batch."""
        step, images, labels = batch.step, batch.padded, batch.labels
        pixels = np.full(images.shape, shade(epoch, step), np.float16)
        if self.finished:
            source = np.full((*images.shape[:3], 3), shade(epoch, step), np.uint8)
            for row in range(ROWS):
                NORMALIZE.apply(source[row], pixels[row, ..., :3], None)  # type: ignore[arg-type]  # it has no parameters
        pixels[..., 3] = 0
        pixels[self._missing(step)] = 0
        expected = np.full(ROWS, shade(epoch, step), np.int32)
        expected[self._missing(step)] = -1

        def look() -> None:
            self._expect(f"pixels of {step}", images, pixels)
            self.cuda.pause()
            self._expect(f"labels of {step}", labels, expected)
            self.cuda.pause()
            self._expect(f"pixels of {step}", images, pixels)

        self.cuda.later(self.cuda.consumer_stream(None), look)
        self._check_host(batch, epoch)

    def _check_host(self, batch: Delivery, epoch: int) -> None:
        self.scheduler.switch()
        ids = np.full(ROWS, shade(epoch, batch.step))
        ids[self._missing(batch.step)] = -1
        self._expect(f"ids of {batch.step}", batch.sample_ids, ids)
        self._expect(f"valid of {batch.step}", batch.valid, ids >= 0)

    def _expect(self, what: str, found: Any, expected: Any) -> None:
        if not np.array_equal(found, expected):
            self.wrong.append(what)


def shade(epoch: int, step: int) -> int:
    return 10 + 20 * epoch + step


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Simulation]:
    def simulate(
        seed: int, removed: str = "", *, finished: bool = False, poison: bool = False
    ) -> Simulation:
        simulation = Simulation(seed, removed=removed, finished=finished, poison=poison)
        for module in (double_buffer_module, device_feed, device_arena):
            monkeypatch.setattr(module, "threading", simulation.scheduler.threading)
        simulation.run()
        return simulation

    return simulate


@pytest.mark.parametrize("poison", [False, True])
@pytest.mark.parametrize("finished", [False, True])
def test_every_batch_is_right_whatever_runs_when(
    simulate: Callable[..., Simulation], *, finished: bool, poison: bool
) -> None:
    for seed in SEEDS:
        assert simulate(seed, finished=finished, poison=poison).wrong == []


CALLS = [
    f"record {COPIES}",  # that a batch is written
    f"record {CONSUMER}",  # that a slot is released
    f"wait {COPIES}",  # until the slot was released
    f"wait {CONSUMER}",  # until the batch is written
    f"synchronize {COPIES}",  # until the pinned zone was read
    f"synchronize {CONSUMER}",  # until a tensor was transferred
]


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("removed", CALLS)
def test_without_any_one_event_or_wait_of_the_device_something_is_wrong(
    simulate: Callable[..., Simulation], removed: str, *, finished: bool
) -> None:
    for seed in TRIES:
        simulation = simulate(seed, removed, finished=finished)
        assert simulation.cuda.removals
        if simulation.wrong:
            return
    pytest.fail(f"nothing shows that {removed!r} is missing")


def _no_join(arena: DeviceArena, timeout_s: float) -> bool:  # noqa: ARG001  # it does not wait
    feed = arena._feed()
    if feed is not None:
        feed.end()
    return True


def _pinned(self: upload.Upload, zone: int, step: int) -> Delivery:
    source = self._zones[zone]
    found = self._deliveries[zone]
    return replace(found, step=step, valid=source.valid, sample_ids=source.sample_ids)


HOST_SIDE: dict[str, tuple[type, str, Any]] = {
    "the upload waits for the slot to be given back": (
        device_feed.DeviceFeed, "_await_given_back", lambda *_: None,
    ),
    "the consumer waits for the upload": (
        device_feed.DeviceFeed, "_can_take", lambda _: True,
    ),
    "a pass begins after the copies of the one before": (DeviceArena, "_leave", _no_join),
    "a batch that a pass left in hand is taken back": (
        cuda.SlotEvents, "take_back_all", lambda _: None,
    ),
    "what stays on the host is copied": (upload.Upload, "delivery", _pinned),
    "closing waits for the copy stream": (DeviceArena, "close", lambda arena: arena._leave(1e6)),
}  # fmt: skip


@pytest.mark.parametrize("removed", HOST_SIDE)
def test_without_any_one_wait_of_the_host_something_is_wrong(
    simulate: Callable[..., Simulation], monkeypatch: pytest.MonkeyPatch, removed: str
) -> None:
    owner, name, replacement = HOST_SIDE[removed]
    monkeypatch.setattr(owner, name, replacement)
    assert any(simulate(seed, poison=True).wrong for seed in TRIES)


def test_the_same_seed_gives_the_same_order(simulate: Callable[..., Simulation]) -> None:
    first, second = (simulate(3, f"wait {COPIES}").wrong for _ in range(2))
    assert first == second
