"""A CUDA runtime without a device, as treacherous as a real one may be.

Addresses are real ones of the host, so that a copy is a copy. Work that a stream is
given runs when its turn comes: with a `Scheduler` as late as a seed likes, torn in two,
while whoever gave it goes on; without one at once. Memory holds garbage at first, and
work on memory that is not there any more is an error. As with CUDA, copies of ordinary
host memory, neither pinned nor the device's, are done with it when the call returns.
"""

import ctypes
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from fake_threads import Scheduler

from dtsflow.arena.cuda import Block
from dtsflow.errors import MemoryPlanError, PlanError, StationError
from dtsflow.memory.align import aligned_bytes

COPIES, CONSUMER = "copies", "consumer"
_GARBAGE = 0xA5


class FakeStream:
    """A queue of work, each piece with what it waits for; `role` says whose it is."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.work: deque[tuple[Callable[[], bool], Callable[[], None]]] = deque()


class FakeEvent:
    """Counts its records: those asked for, and those that their stream has come to."""

    def __init__(self) -> None:
        self.recorded = 0
        self.reached = 0
        self.role: str | None = None

    def reach(self, record: int) -> None:
        self.reached = max(self.reached, record)


class FakeBlock:
    """Memory of the device, at an address that is no multiple of 256."""

    def __init__(self, nbytes: int) -> None:
        self.whole = np.full(nbytes + 512, _GARBAGE, np.uint8)
        skip = -self.whole.ctypes.data % 256 + 64
        self.memory = self.whole[skip : skip + nbytes]

    @property
    def address(self) -> int:
        return int(self.memory.ctypes.data)


class FakeCuda:
    """`Cuda` without a device.

    Attributes:
        removed: A call that does nothing, as "wait copies": which, and of whose stream.
        removals: How often it was left out.
        errors: Work on memory that was not there any more.
        fails: Copies fail, as when a device is lost.
        runs: Where it is cleared, nobody that synchronizes goes on.
    """

    def __init__(
        self, scheduler: Scheduler | None = None, *, removed: str = "", free: int = 1 << 24
    ) -> None:
        self._scheduler = scheduler
        self._free = free
        self._live: dict[int, int] = {}  # where memory begins that work may touch: its end
        self._streams: list[FakeStream] = []
        self._lock = threading.RLock()
        self._consumer = self._stream(CONSUMER)
        self.removed = removed
        self.removals = 0
        self.errors: list[str] = []
        self.fails = False
        self.runs = threading.Event()
        self.runs.set()

    @property
    def name(self) -> str:
        return "device 0 (fake)"

    def compile(self) -> None:
        """Nothing: the kernels are `normalize`."""

    def allocate(self, nbytes: int) -> FakeBlock:
        if nbytes > self._free:
            raise MemoryPlanError(f"the plan takes {nbytes} bytes and {self._free} are free.")
        block = FakeBlock(nbytes)
        self._track(block.address, nbytes, block.whole)
        return block

    def pinned(self, nbytes: int) -> npt.NDArray[np.uint8]:
        zone = aligned_bytes(nbytes)
        assert isinstance(zone.base, np.ndarray)
        self._track(int(zone.ctypes.data), nbytes, zone.base)
        return zone

    def _track(self, address: int, nbytes: int, owner: npt.NDArray[np.uint8]) -> None:
        """Work may touch it until nothing refers to `owner`, which views of it do."""
        self._live[address] = address + nbytes
        weakref.finalize(owner, self._live.pop, address)

    def array(
        self, block: Block, offset: int, shape: Sequence[int], dtype: np.dtype[Any]
    ) -> npt.NDArray[Any]:
        assert isinstance(block, FakeBlock)
        nbytes = int(np.prod(shape)) * dtype.itemsize
        return block.memory[offset : offset + nbytes].view(dtype).reshape(shape)

    def stream(self) -> FakeStream:
        return self._stream(COPIES)

    def _stream(self, role: str) -> FakeStream:
        stream = FakeStream(role)
        self._streams.append(stream)
        if self._scheduler is not None:
            self._scheduler.spawn(f"stream of {role}", lambda: self._serve(stream))
        return stream

    def consumer_stream(self, given: Any) -> FakeStream:
        if given is None:
            return self._consumer
        if not isinstance(given, FakeStream):
            raise PlanError(f"stream={given!r} is no CUDA stream.")
        return given

    def event(self) -> FakeEvent:
        return FakeEvent()

    def record(self, event: FakeEvent, stream: FakeStream) -> None:
        if not self._is_removed("record", stream.role):
            event.role = stream.role
            event.recorded += 1
            record = event.recorded
            self._give(stream, lambda: event.reach(record))

    def wait(self, stream: FakeStream, event: FakeEvent) -> None:
        if not self._is_removed("wait", stream.role):
            record = event.recorded
            self._give(stream, lambda: None, lambda: event.reached >= record)

    def synchronize(self, event: FakeEvent) -> None:
        if not self._is_removed("synchronize", event.role):
            record = event.recorded
            self.runs.wait()
            self._block_until(lambda: event.reached >= record)

    def copy(self, target: int, source: int, nbytes: int, stream: FakeStream) -> None:
        if self.fails:
            raise StationError(f"{self.name}: copying {nbytes} bytes failed: it is lost.")
        ours = [a for a in (target, source) if self._is_live(a, nbytes)]
        kept = None
        if source not in ours:
            kept = ctypes.create_string_buffer(ctypes.string_at(source, nbytes), nbytes)
        start = source if kept is None else ctypes.addressof(kept)
        done = FakeEvent()

        def run() -> None:
            half = nbytes // 2
            if self._are_live(ours, nbytes):
                ctypes.memmove(target, start, half)
                self._pause()
            if self._are_live(ours, nbytes):
                ctypes.memmove(target + half, start + half, nbytes - half)
            assert kept is None or start == ctypes.addressof(kept)
            done.reach(1)

        self._give(stream, run)
        if target not in ours:
            self._block_until(lambda: done.reached == 1)

    def fill(self, address: int, byte: int, nbytes: int, stream: FakeStream) -> None:
        assert self._is_live(address, nbytes)

        def run() -> None:
            self._pause()
            if self._are_live([address], nbytes):
                ctypes.memset(address, byte, nbytes)

        self._give(stream, run)

    def launch(
        self, kernel: str, threads: int, arguments: Sequence[int], stream: FakeStream
    ) -> None:
        assert threads == arguments[5] * arguments[6]

        def run() -> None:
            self._pause()
            if self._are_live(arguments[:5], 1):
                normalize(kernel, *arguments)

        self._give(stream, run)

    def later(self, stream: FakeStream, function: Callable[[], None]) -> None:
        """Give a stream work of a consumer's."""
        self._give(stream, function)

    def drain(self) -> None:
        """Wait until no stream has any work left."""
        self._block_until(lambda: not any(stream.work for stream in self._streams))

    def pause(self) -> None:
        """Let time pass in the middle of some work."""
        self._pause()

    def _is_removed(self, call: str, role: str | None) -> bool:
        is_removed = self.removed == f"{call} {role}"
        self.removals += is_removed
        return is_removed

    def _give(
        self,
        stream: FakeStream,
        run: Callable[[], None],
        can_run: Callable[[], bool] = lambda: True,
    ) -> None:
        if self._scheduler is not None:
            stream.work.append((can_run, run))
            self._scheduler.switch()
            return
        with self._lock:
            assert can_run()
            run()

    def _serve(self, stream: FakeStream) -> None:
        """What the device does with one stream."""
        while True:
            self._block_until(lambda: bool(stream.work) and stream.work[0][0]())
            stream.work[0][1]()
            stream.work.popleft()

    def _block_until(self, can_run: Callable[[], bool]) -> None:
        if self._scheduler is not None:
            self._scheduler.block_until(can_run)
        else:
            assert can_run()

    def _pause(self) -> None:
        if self._scheduler is not None:
            self._scheduler.switch()

    def _is_live(self, address: int, nbytes: int) -> bool:
        for start, end in list(self._live.items()):
            if start <= address < end:
                assert address + nbytes <= end, "it goes on past the end of the memory"
                return True
        return False

    def _are_live(self, addresses: Sequence[int], nbytes: int) -> bool:
        late = [address for address in addresses if not self._is_live(address, nbytes)]
        self.errors += [f"work on {address:#x}, which is free" for address in late]
        return not late


def normalize(kernel: str, *arguments: int) -> None:
    """What the kernels of normalize.cu do, on memory of the host."""
    pixels, valid, scale, offset, target, rows, row_pixels, channels, stored = arguments
    element = {"normalize_fp32": np.float32, "normalize_fp16": np.float16}.get(kernel, np.uint16)
    x = at(pixels, (rows, row_pixels, channels), np.uint8).astype(np.float32)
    y = x * at(scale, (channels,), np.float32) + at(offset, (channels,), np.float32)
    if kernel == "normalize_bf16":
        bits = y.view(np.uint32)
        y = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    out = at(target, (rows, row_pixels, stored), element)
    out[...] = 0
    there = at(valid, (rows,), np.bool_)
    out[there, :, :channels] = y[there].astype(element)


def at(address: int, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The memory at an address as an array."""
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
    return raw.view(dtype).reshape(shape)
