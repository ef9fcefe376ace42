from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from dtsflow.consumer.softmax import Captured


class FakeStream:
    """Says what it is given; while it captures, kernels are only noted."""

    def __init__(self, device: "FakeDevice", name: str) -> None:
        self.device, self.name = device, name
        self.recorded: list[str] | None = None

    def __enter__(self) -> None:
        self.device.current.append(self)

    def __exit__(self, *error: object) -> None:
        self.device.current.pop()

    def record(self) -> str:
        self.device.told.append(f"{self.name} records")
        return self.name

    def wait_event(self, event: str) -> None:
        self.device.told.append(f"{self.name} waits for {event}")

    def begin_capture(self, mode: str) -> None:
        assert mode == "thread-local"
        self.recorded = []

    def end_capture(self) -> "FakeGraph":
        assert self.recorded is not None
        graph, self.recorded = FakeGraph(self.device, self.recorded), None
        return graph


class FakeGraph:
    def __init__(self, device: "FakeDevice", kernels: list[str]) -> None:
        self.device, self.kernels = device, kernels

    def launch(self) -> None:
        stream = self.device.current[-1]
        self.device.told += [f"{stream.name} replays {kernel}" for kernel in self.kernels]


class FakeDevice:
    """As much of cupy.cuda as Captured uses."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.current = [FakeStream(self, "theirs")]
        self.runtime = SimpleNamespace(streamCaptureModeThreadLocal="thread-local")
        self.allocators: list[object] = []
        self.cuda = self

    def Stream(self, *, non_blocking: bool) -> FakeStream:  # noqa: N802  # cupy's name
        assert non_blocking
        return FakeStream(self, "own")

    def MemoryPool(self) -> Any:  # noqa: N802  # cupy's name
        return SimpleNamespace(malloc="of the pool")

    def using_allocator(self, allocator: object) -> AbstractContextManager[None]:
        self.allocators.append(allocator)
        return nullcontext()

    def get_current_stream(self) -> FakeStream:
        return self.current[-1]

    def kernel(self, name: str) -> Callable[[], None]:
        def start() -> None:
            stream = self.current[-1]
            if stream.recorded is None:
                self.told.append(f"{stream.name} runs {name}")
            else:
                stream.recorded.append(name)

        return start


def test_work_runs_once_is_recorded_once_and_then_replayed() -> None:
    device = FakeDevice()
    captured = Captured(device)
    captured.run("a", device.kernel("a"))
    assert device.told == [
        "theirs records",
        "own waits for theirs",
        "own runs a",
        "own records",
        "theirs waits for own",
    ]
    device.told.clear()
    captured.run("a", device.kernel("a"))
    captured.run("a", device.kernel("never recorded"))
    assert device.told == ["theirs replays a"] * 2
    assert device.allocators == ["of the pool"] * 2


def test_each_key_has_its_own_graph() -> None:
    device = FakeDevice()
    captured = Captured(device)
    for _ in range(3):
        for key in ("a", "b"):
            captured.run(key, device.kernel(key))
    runs = [line for line in device.told if "runs" in line or "replays" in line]
    assert runs == ["own runs a", "own runs b", *["theirs replays a", "theirs replays b"] * 2]


def test_work_that_fails_leaves_no_capture_open_and_is_recorded_anew() -> None:
    device = FakeDevice()
    captured = Captured(device)
    captured.run("a", device.kernel("a"))

    def fail() -> None:
        device.kernel("half")()
        raise MemoryError

    with pytest.raises(MemoryError):
        captured.run("a", fail)
    device.told.clear()
    captured.run("a", device.kernel("a"))
    assert device.told == ["theirs replays a"]
