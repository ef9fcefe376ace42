"""What a device arena promises, on the fake runtime and on a real device alike.

`pytest -m gpu tests/arena` runs it on device 0; see tests/gpu.sh.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from fake_cuda import FakeCuda, FakeStream

from dtsflow.arena.arena import Delivery, Feed, Form
from dtsflow.arena.cuda import Cuda
from dtsflow.arena.device import open_device
from dtsflow.arena.device_arena import DeviceArena
from dtsflow.arena.staging import reserve_staging
from dtsflow.errors import ClosedError, DecodeError, MemoryPlanError, MissingPartError, PlanError
from dtsflow.memory.align import ALIGN
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.po.normalize import Normalize
from dtsflow.spec import ImageSpec
from dtsflow.station.double_buffer import ZONES, DoubleBuffer
from dtsflow.station.zone import Zone
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape
from dtsflow.tensor.tensor import DTensor, Tensor

TRAIN = Form(6, ImageSpec(5, 7, 3, DType.FP16), 4)
VAL = Form(4, ImageSpec(3, 4, 3, DType.FP16), 3)
FORMS = {"train": TRAIN, "val": VAL}
Write = Callable[[Zone, int], None]


@pytest.fixture(params=["fake", pytest.param("gpu", marks=pytest.mark.gpu)])
def cuda(request: pytest.FixtureRequest) -> Cuda:
    if request.param == "fake":
        return FakeCuda()
    try:
        device = open_device(0)
    except MissingPartError as absent:
        pytest.skip(str(absent))
    device.compile()
    return device


def plan_of(forms: dict[str, Form], *others: tuple[Region, Shape, DType]) -> MemoryPlan:
    """A plan whose input slots are those of the first form, which is the largest."""
    first = next(iter(forms.values()))
    rows, height, width, _ = first.shape
    image = Shape(1, height, width, first.image.c)
    plan = MemoryPlan().input_buffers(batch=rows, image=image, dtype=first.delivered.dtype)
    for other in others:
        plan.allocate(*other)
    reserve_staging(plan, forms)
    return plan.finalize()


def to_host(array: Any) -> npt.NDArray[Any]:
    """A copy, after the work of the current stream."""
    return np.array(array) if isinstance(array, np.ndarray) else array.get()


@contextmanager
def passing(
    arena: DeviceArena, phase: str, steps: range, write: Write, **given: Any
) -> Iterator[Feed]:
    """A pass whose batches one worker writes with `write`."""
    double_buffer = DoubleBuffer(steps, chunks=1)
    terms: dict[str, Any] = {"timeout_s": 60.0, "progress": lambda: "", "poison": False}
    feed = arena.feed(phase, double_buffer, **{**terms, **given})

    def work() -> None:
        while (claimed := double_buffer.claim()) is not None:
            step, _ = claimed
            try:
                write(arena.zones[phase][step % ZONES], step)
            except DecodeError as error:
                double_buffer.fail(step, error)
            else:
                double_buffer.finish(step)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield feed
    finally:
        feed.end()
        worker.join()


def pixels_of(zone: Zone, step: int) -> npt.NDArray[Any]:
    rng = np.random.default_rng(step)
    drawn = rng.integers(0, 256, zone.images.shape, np.uint8)
    return drawn.astype(zone.images.dtype)


def write_step(zone: Zone, step: int) -> None:
    """Fill a zone with what only `step` has; row 1 is missing."""
    zone.padded[...] = 0
    zone.images[...] = pixels_of(zone, step)
    zone.labels[:] = zone.sample_ids[:] = step * 100 + np.arange(len(zone.labels))
    zone.valid[:] = True
    zone.clear_rows(slice(1, 2))


def expect_step(batch: Delivery, zone: Zone, step: int) -> None:
    expected = pixels_of(zone, step)
    expected[1] = 0
    ids = step * 100 + np.arange(len(expected))
    ids[1] = -1
    assert batch.step == step
    assert batch.zone == step % ZONES
    assert np.array_equal(to_host(batch.images), expected)
    assert np.array_equal(to_host(batch.labels), ids)
    assert np.array_equal(batch.sample_ids, ids)
    assert np.array_equal(batch.valid, ids >= 0)
    assert not to_host(batch.padded)[..., 3:].any()


def address(array: Any) -> int:
    interface = "__cuda_array_interface__" if hasattr(array, "get") else "__array_interface__"
    pointer: int = getattr(array, interface)["data"][0]
    return pointer


def test_every_tensor_lies_at_its_offset_from_an_aligned_base(cuda: Cuda) -> None:
    weight = (Region.W_FC_WEIGHT, Shape(10, 1, 1, 6), DType.FP32)
    plan = plan_of(FORMS, weight, (Region.G_FC_WEIGHT, *weight[1:]))
    arena = DeviceArena(plan, FORMS, cuda)
    base = arena.ptr_at(plan.tensors[0])
    assert base % ALIGN == 0
    for tensor in plan.tensors:
        assert arena.ptr_at(tensor) == base + tensor.offset
        assert arena.ptr_at(replace(tensor, offset=-1)) == base + tensor.offset
        view = arena.view(tensor)
        assert address(view) == base + tensor.offset
        assert view.shape == tuple(tensor.shape)
        assert view.dtype == tensor.dtype.numpy
        assert not to_host(view).any()


def test_batches_of_all_phases_arrive_at_two_addresses_that_never_change(cuda: Cuda) -> None:
    plan = plan_of(FORMS)
    arena = DeviceArena(plan, FORMS, cuda)
    slots = [
        [arena.ptr_at(plan.region_tensors(region)[0]) for region in regions]
        for regions in (
            (Region.I_A_LABEL, Region.I_A_DATA), (Region.I_B_LABEL, Region.I_B_DATA)
        )
    ]  # fmt: skip
    beside: set[tuple[int, int, int]] = set()
    for phase, steps in [("train", range(5)), ("val", range(2)), ("train", range(3, 8))]:
        with passing(arena, phase, steps, write_step) as feed:
            for step in steps:
                batch = feed.take()
                expect_step(batch, arena.zones[phase][0], step)
                assert [address(batch.labels), address(batch.images)] == slots[step % ZONES]
                assert address(batch.padded) == address(batch.images)
                assert batch.padded.shape == FORMS[phase].shape
                beside.add((batch.zone, address(batch.valid), address(batch.sample_ids)))
                feed.give_back()
    assert len(beside) == ZONES
    arena.close()


def test_the_host_arrays_of_a_batch_stay_while_its_zone_is_filled_again(cuda: Cuda) -> None:
    arena = DeviceArena(plan_of(FORMS), FORMS, cuda)
    refilled = threading.Event()

    def write(zone: Zone, step: int) -> None:
        write_step(zone, step)
        if step == 2:
            refilled.set()

    with passing(arena, "train", range(3), write) as feed:
        batch = feed.take()
        assert refilled.wait(60)  # zone A has batch 2 now, and the device still has batch 0
        expect_step(batch, arena.zones["train"][0], 0)


@pytest.mark.parametrize("dtype", [DType.FP32, DType.FP16, DType.BF16])
def test_normalised_by_the_device_a_batch_is_the_host_s_bit_for_bit(
    cuda: Cuda, dtype: DType
) -> None:
    normalize = Normalize(preset="imagenet", dtype=dtype)
    stored = 3 if dtype is DType.FP32 else 4
    on_device = Form(6, ImageSpec(5, 7, 3, dtype), stored, normalize.finish(3))
    forms = {"train": on_device, "val": replace(on_device, rows=2)}
    arena = DeviceArena(plan_of(forms), forms, cuda)
    for phase, form in forms.items():
        zone = arena.zones[phase][0]
        assert zone.padded.dtype == np.uint8
        assert zone.padded.shape == (form.rows, 5, 7, 3)
        with passing(arena, phase, range(3), write_step) as feed:
            for step in range(3):
                batch = feed.take()
                expected = np.zeros(form.shape, dtype.numpy)
                for row in np.flatnonzero(batch.valid):
                    image = pixels_of(zone, step)[row]
                    normalize.apply(image, expected[row, ..., :3], np.void(b""))
                assert to_host(batch.padded).tobytes() == expected.tobytes()
                assert to_host(batch.labels)[0] == step * 100
                feed.give_back()
    arena.close()


@pytest.mark.parametrize("is_pinned", [False, True])
@pytest.mark.parametrize(
    ("region", "shape", "dtype"),
    [
        (Region.F_FEATURE_FP16, Shape(2, 3, 4, 5), DType.FP16),  # 8 channels as stored
        (Region.F_FEATURE_FP16, Shape(2, 3, 4, 3), DType.BF16),
        (Region.S_MASK, Shape(2, 1, 1, 3), DType.INT8),
        (Region.W_FC_BIAS, Shape(1, 1, 1, 10), DType.FP32),
        (Region.I_A_DATA, Shape(6, 5, 7, 3), DType.FP16),  # 4 channels
    ],
)
def test_a_tensor_comes_back_as_it_was_sent_and_its_padding_is_zero(
    cuda: Cuda, region: Region, shape: Shape, dtype: DType, *, is_pinned: bool
) -> None:
    twin = [] if region is not Region.W_FC_BIAS else [(Region.G_FC_BIAS, shape, dtype)]
    plan = plan_of(FORMS, (region, shape, dtype), *twin)
    tensor = plan.region_tensors(region)[-1]
    arena = DeviceArena(plan, FORMS, cuda)
    stored = Shape(shape.n, shape.h, shape.w, tensor.padded_c)
    whole = replace(tensor, shape=stored)
    sent = Tensor.copy_of(np.arange(1, shape.numel + 1).astype(dtype.numpy).reshape(tuple(shape)))
    held = Tensor.zeros(stored, dtype, pin=arena.pin if is_pinned else None)
    held.array[:] = 1
    arena.transfer_to_rank(whole, held)
    arena.transfer_to_rank(tensor, sent)
    arena.fetch_from_rank(whole, held)
    assert np.array_equal(held.array[..., : shape.c], sent.array)
    assert not held.array[..., shape.c :].any()
    got = Tensor.zeros(shape, dtype)
    arena.fetch_from_rank(tensor, got)
    assert np.array_equal(got.array, sent.array)
    assert np.array_equal(to_host(arena.view(tensor)), sent.array)


def test_page_locked_memory_is_aligned_zeros(cuda: Cuda) -> None:
    memory = DeviceArena(plan_of(FORMS), FORMS, cuda).pin(1000)
    assert memory.nbytes == 1000
    assert address(memory) % ALIGN == 0
    assert not memory.any()


def test_a_tensor_that_does_not_fit_is_refused(cuda: Cuda) -> None:
    plan = plan_of(FORMS)
    arena = DeviceArena(plan, FORMS, cuda)
    label = plan.tensors[0]
    with pytest.raises(MemoryPlanError, match=r"FP32\[6,1,1,1\] was given for tensor 0"):
        arena.transfer_to_rank(label, Tensor.zeros(label.shape, DType.FP32))
    with pytest.raises(MemoryPlanError, match=r"INT32\[5,1,1,1\] was given for tensor 0"):
        arena.fetch_from_rank(label, Tensor.zeros(Shape(5, 1, 1, 1), DType.INT32))
    with pytest.raises(MemoryPlanError, match="tensor 99 was asked for"):
        arena.ptr_at(replace(label, id=99))
    with pytest.raises(MemoryPlanError, match="needs 40000 bytes"):
        arena.view(replace(label, shape=Shape(10_000, 1, 1, 1)))
    elsewhere = DTensor(0, "", label.shape, label.dtype, Region.S_SCALAR_INT32, 512)
    with pytest.raises(MemoryPlanError, match="in S_SCALAR_INT32 needs"):
        arena.ptr_at(elsewhere)


def test_poison_fills_what_was_given_back_and_nothing_else(cuda: Cuda) -> None:
    arena = DeviceArena(plan_of(FORMS), FORMS, cuda)
    with passing(arena, "train", range(2), write_step, poison=True) as feed:
        batch = feed.take()
        expect_step(batch, arena.zones["train"][0], 0)
        feed.give_back()
        expect_step(feed.take(), arena.zones["train"][0], 1)
        assert np.isnan(to_host(batch.padded).astype(np.float32)).all()
        assert (to_host(batch.labels) == -1).all()
        assert (batch.sample_ids == -1).all()
        assert (batch.valid.view(np.uint8) == 0xFF).all()
    arena.close()


def test_batches_before_a_failed_one_are_handed_out_first(cuda: Cuda) -> None:
    arena = DeviceArena(plan_of(FORMS), FORMS, cuda)

    def write(zone: Zone, step: int) -> None:
        if step == 1:
            raise DecodeError("no image")
        write_step(zone, step)

    with passing(arena, "train", range(4), write) as feed:
        expect_step(feed.take(), arena.zones["train"][0], 0)
        feed.give_back()
        with pytest.raises(DecodeError, match="no image"):
            feed.take()


def test_an_ended_pass_hands_out_nothing_and_another_can_begin(cuda: Cuda) -> None:
    arena = DeviceArena(plan_of(FORMS), FORMS, cuda)
    with passing(arena, "train", range(4), write_step) as feed:
        feed.take()
        feed.end()
        feed.end()
        feed.give_back()
        with pytest.raises(ClosedError, match="has ended"):
            feed.take()
    with passing(arena, "train", range(1, 3), write_step) as feed:
        expect_step(feed.take(), arena.zones["train"][0], 1)
    arena.close()
    arena.close()
    with (
        pytest.raises(ClosedError, match="is closed"),
        passing(arena, "train", range(4), write_step),
    ):
        pass


def test_a_consumer_names_its_stream(cuda: Cuda) -> None:
    arena = DeviceArena(plan_of(FORMS), FORMS, cuda)
    stream: Any = FakeStream("consumer")
    if not isinstance(cuda, FakeCuda):
        stream = pytest.importorskip("cupy").cuda.Stream(non_blocking=True)
    with passing(arena, "train", range(3), write_step, stream=stream) as feed:
        for step in range(3):
            batch = feed.take()
            if not isinstance(cuda, FakeCuda):
                with stream:
                    expect_step(batch, arena.zones["train"][0], step)
            feed.give_back()
    with (
        passing(arena, "train", range(3), write_step, stream="mine") as feed,
        pytest.raises(PlanError, match="stream='mine' is no CUDA stream"),
    ):
        feed.take()


def test_a_batch_keeps_the_memory_after_the_arena_was_closed(cuda: Cuda) -> None:
    arena = DeviceArena(plan_of(FORMS), FORMS, cuda)
    zone = arena.zones["train"][0]
    with passing(arena, "train", range(1), write_step) as feed:
        batch = feed.take()
    arena.close()
    del arena, feed
    expect_step(batch, zone, 0)


def test_staging_that_was_not_reserved_is_missed(cuda: Cuda) -> None:
    normalize = Normalize(preset="imagenet", dtype=DType.FP16)
    plan = plan_of({"train": TRAIN})
    form = replace(TRAIN, finish=normalize.finish(3))
    with pytest.raises(MemoryPlanError, match="no 'staged pixels' in T_TEMP_INT8"):
        DeviceArena(plan, {"train": form}, cuda)
