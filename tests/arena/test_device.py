"""How a device is found, and what is said where there is none."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fake_cuda import FakeCuda
from pydantic import ValidationError

from dtsflow.arena.device import CupyCuda, Device, open_device
from dtsflow.arena.device_arena import DeviceArena
from dtsflow.arena.form import Form
from dtsflow.errors import ConfigError, MemoryPlanError, MissingPartError, StationError
from dtsflow.memory.plan import MemoryPlan
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


@pytest.mark.parametrize("bad", [{"device": -1}, {"device": True}, {"normalize_on": "moon"}])
def test_bad_values_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Device(**bad)
