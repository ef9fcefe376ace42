"""How a device is found, and what is said where there is none."""

import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_cuda import FakeCuda
from pydantic import ValidationError

from dtsflow.arena.arena import Form
from dtsflow.arena.device import CupyCuda, Device, open_device
from dtsflow.arena.device_arena import DeviceArena
from dtsflow.errors import ConfigError, MemoryPlanError, MissingPartError, PlanError, StationError
from dtsflow.memory.plan import MemoryPlan
from dtsflow.po.normalize import Normalize
from dtsflow.spec import ImageSpec
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape

FORMS = {"train": Form(2, ImageSpec(2, 2, 3, DType.FP32), 3)}


def plan() -> MemoryPlan:
    image = Shape(1, 2, 2, 3)
    return MemoryPlan().input_buffers(batch=2, image=image, dtype=DType.FP32).finalize()


class FailureError(RuntimeError):
    """Stands for cupy's CUDARuntimeError."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Entered:
    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


def cupy_of(devices: int | FailureError, *, failure: FailureError | None = None) -> Any:
    """A cupy with so many devices, whose calls fail with `failure`."""

    def count() -> int:
        if isinstance(devices, FailureError):
            raise devices
        return devices

    def fail(*_: object) -> None:
        assert failure is not None
        raise failure

    runtime = SimpleNamespace(
        CUDARuntimeError=FailureError,
        getDeviceCount=count,
        getDeviceProperties=lambda number: {"name": f"H{number}00".encode()},
        memGetInfo=lambda: (1000, 2000),
        eventSynchronize=fail,
    )
    module = ModuleType("cupy")
    module.cuda = SimpleNamespace(  # type: ignore[attr-defined]  # what cupy has
        runtime=runtime, Device=Entered, Memory=fail, PinnedMemory=fail
    )
    return module


def test_without_cupy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(MissingPartError, match=r"pip install 'dtsflow\[cuda13\]'"):
        Device().open(plan(), FORMS)


def test_without_a_device_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy_of(FailureError(35, "driver is insufficient")))
    with pytest.raises(MissingPartError, match=r"driver is insufficient.*dtsflow\[cuda12\]"):
        Device().open(plan(), FORMS)


@pytest.mark.parametrize(
    ("device", "local_rank", "devices", "name"),
    [
        ("auto", 0, 1, "device 0 (H000)"),
        ("auto", 3, 4, "device 3 (H300)"),
        ("auto", 3, 1, "device 0 (H000)"),  # a launcher that shows each rank its own
        (1, 0, 2, "device 1 (H100)"),
    ],
)
def test_a_device_is_the_one_of_the_rank_or_of_the_config(
    monkeypatch: pytest.MonkeyPatch, device: Any, local_rank: int, devices: int, name: str
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy_of(devices))
    assert open_device(device, local_rank).name == name


@pytest.mark.parametrize(
    ("device", "local_rank", "message"),
    [
        (2, 0, r"arena.device=2, and this process sees 2 device\(s\)"),
        ("auto", 5, r"rank 5 of this node takes device 5, and this process sees 2 device\(s\)"),
    ],
)
def test_a_device_that_is_not_there_is_refused_with_both_numbers(
    monkeypatch: pytest.MonkeyPatch, device: Any, local_rank: int, message: str
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy_of(2))
    with pytest.raises(ConfigError, match=message):
        open_device(device, local_rank)


def test_a_plan_larger_than_what_is_free_is_refused_with_both_numbers() -> None:
    cuda = CupyCuda(cupy_of(1, failure=FailureError(2, "out of memory")), 0)
    with pytest.raises(MemoryPlanError, match=r"takes 5000 bytes of device 0 .* 1000 of its 2000"):
        cuda.allocate(5000)
    with pytest.raises(MemoryPlanError, match="zone of 5000 bytes cannot be locked"):
        cuda.pinned(5000)
    with pytest.raises(MemoryPlanError, match="and 100 are free"):
        DeviceArena(plan(), FORMS, FakeCuda(free=100))


def test_any_other_failure_names_the_device_and_what_it_did() -> None:
    cuda = CupyCuda(cupy_of(1, failure=FailureError(700, "illegal address")), 0)
    with pytest.raises(StationError, match=r"device 0 \(H000\): waiting for a copy failed: ill"):
        cuda.synchronize(SimpleNamespace(ptr=1))
    with pytest.raises(StationError, match="allocating memory failed"):
        cuda.allocate(1)
    with pytest.raises(StationError, match="allocating pinned memory failed"):
        cuda.pinned(1)


def test_the_host_holds_two_zones_and_what_lies_beside_twice() -> None:
    label = 512  # the slot of two int32
    beside = 2 * (1 + 8)
    assert Device().host_bytes(plan(), FORMS) == 2 * (label + 2 * 2 * 2 * 3 * 4 + 2 * beside)
    finished = replace(FORMS["train"], finish=Normalize(preset="cifar").finish(3))
    assert Device().host_bytes(plan(), {"train": finished}) == 2 * (label + 24 + 2 * beside)


def test_calls_reach_the_runtime_with_what_cuda_itself_takes() -> None:
    calls: list[tuple[Any, ...]] = []

    def log(name: str) -> Callable[..., None]:
        return lambda *given: calls.append((name, *given))

    cupy = cupy_of(1)
    for name in (
        "eventRecord",
        "streamWaitEvent",
        "eventSynchronize",
        "memcpyAsync",
        "memsetAsync",
    ):
        setattr(cupy.cuda.runtime, name, log(name))
    cupy.cuda.runtime.memcpyDefault = 4
    cupy.cuda.Stream = lambda **_: Owner(7)
    cupy.cuda.Event = lambda **_: SimpleNamespace(ptr=5)
    cupy.cuda.compiler = SimpleNamespace(CompileException=FailureError)
    cupy.RawModule = lambda **_: SimpleNamespace(get_function=log)
    cuda = CupyCuda(cupy, 0)
    stream, event = cuda.stream(), cuda.event()
    cuda.record(event, stream)
    cuda.wait(stream, event)
    cuda.synchronize(event)
    cuda.copy(1, 2, 3, stream)
    cuda.fill(1, 255, 3, stream)
    cuda.launch("normalize_fp16", 257, (10, 20), stream)
    assert calls == [
        ("eventRecord", 5, 7),
        ("streamWaitEvent", 7, 5),
        ("eventSynchronize", 5),
        ("memcpyAsync", 1, 2, 3, 4, 7),  # to, from, bytes, kind, stream
        ("memsetAsync", 1, 255, 3, 7),
        ("normalize_fp16", (2,), (256,), (10, 20)),
    ]
    assert [type(argument) for argument in calls[-1][3]] == [np.int64] * 2


class Owner(Entered):
    """A stream of cupy."""

    @property
    def ptr(self) -> int:
        return self.number


class Standard:
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 9


@pytest.mark.parametrize(
    ("given", "handle"),
    [(None, 3), (Owner(7), 7), (SimpleNamespace(cuda_stream=8), 8), (Standard(), 9), (2, 2)],
)
def test_streams_of_every_library_are_understood(given: Any, handle: int) -> None:
    cupy = cupy_of(1)
    cupy.cuda.get_current_stream = lambda: Owner(3)
    assert CupyCuda(cupy, 0).consumer_stream(given).handle == handle


@pytest.mark.parametrize("given", ["mine", 1.5, object()])
def test_what_is_no_stream_is_refused(given: Any) -> None:
    with pytest.raises(PlanError, match="is no CUDA stream"):
        CupyCuda(cupy_of(1), 0).consumer_stream(given)


def test_a_kernel_that_does_not_compile_is_said_when_the_arena_opens() -> None:
    cupy = cupy_of(1)
    cupy.cuda.compiler = SimpleNamespace(CompileException=FailureError)

    def get_function(name: str) -> None:
        raise FailureError(0, f"{name}: syntax")

    cupy.RawModule = lambda **_: SimpleNamespace(get_function=get_function)
    with pytest.raises(StationError, match=r"normalize.cu does not compile for device 0 \(H000\)"):
        CupyCuda(cupy, 0).compile()


@pytest.mark.parametrize("bad", [{"device": -1}, {"device": True}, {"normalize_on": "moon"}])
def test_bad_values_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Device(**bad)
