"""Batches on a GPU, through cupy: the only module that imports it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dtsflow.arena.arena import Form
from dtsflow.arena.cuda import Block, Event, Stream
from dtsflow.arena.device_arena import DeviceArena
from dtsflow.arena.upload import BESIDE_ROW_BYTES, KERNELS, zone_bytes
from dtsflow.config.configurable import configurable
from dtsflow.errors import ConfigError, MemoryPlanError, MissingPartError, PlanError, StationError
from dtsflow.memory.plan import MemoryPlan
from dtsflow.station.double_buffer import ZONES

SOURCE: Final = Path(__file__).with_name("normalize.cu")
_BLOCK: Final = 256  # threads
_MOST_BLOCKS: Final = 65_535  # each thread takes several turns beyond that
_OUT_OF_MEMORY: Final = 2  # cudaErrorMemoryAllocation
_INSTALL: Final = (
    "Install it with pip install 'dtsflow[cuda13]' for a driver of CUDA 13, 'dtsflow[cuda12]' "
    "for one of CUDA 12, or choose arena=host."
)


@configurable
class Device:
    """Batches live in the memory of a CUDA device, at the addresses of the plan.

    Attributes:
        device: Number of the device among those that this process sees. `auto` is the
            rank's number on its node; a process that sees one device takes that.
        normalize_on: `device` sends UINT8 pixels and lets a kernel normalise them: the
            same bit for bit, and 2.67 times less to copy for FP16.
    """

    device: Annotated[int, Field(ge=0, strict=True)] | Literal["auto"] = "auto"
    normalize_on: Literal["host", "device"] = "host"

    @property
    def finishes(self) -> bool:
        """Tell whether a kernel normalises."""
        return self.normalize_on == "device"

    def host_bytes(self, plan: MemoryPlan, forms: Mapping[str, Form]) -> int:
        """Return the bytes of host memory that `open` takes.

        They are the zones and the arrays beside them.
        """
        rows = max(form.rows for form in forms.values())
        return ZONES * (zone_bytes(plan, forms) + 2 * rows * BESIDE_ROW_BYTES)

    def open(
        self, plan: MemoryPlan, forms: Mapping[str, Form], *, local_rank: int = 0
    ) -> DeviceArena:
        """Allocate what `plan` describes, and the zones of all forms.

        Raises:
            MissingPartError: cupy is not installed, or the machine lacks a device.
            ConfigError: A device of this number does not exist.
            MemoryPlanError: Device or host have not as much memory free.
        """
        cuda = open_device(self.device, local_rank)
        if any(form.finish is not None for form in forms.values()):
            cuda.compile()
        return DeviceArena(plan, forms, cuda)


def open_device(device: int | Literal["auto"], local_rank: int = 0) -> "CupyCuda":
    """Return the device of this number.

    See `Device.device`.

    Raises:
        MissingPartError: cupy is not installed, or the machine lacks a device.
        ConfigError: A device of this number does not exist.
    """
    cupy = _import_cupy()
    count = _count(cupy)
    if device == "auto":
        number = local_rank if count > 1 else 0
        asked = f"rank {local_rank} of this node takes device {number}"
    else:
        number, asked = device, f"arena.device={device}"
    if number >= count:
        raise ConfigError(
            f"{asked}, and this process sees {count} device(s), numbered from 0. Start at most "
            "one rank a device, or look at CUDA_VISIBLE_DEVICES."
        )
    return CupyCuda(cupy, number)


def _import_cupy() -> ModuleType:
    try:
        import cupy  # noqa: PLC0415  # only when a device is opened
    except ImportError as error:
        raise MissingPartError(
            f"arena=device needs cupy, which cannot be imported: {error}. {_INSTALL}"
        ) from error
    return cupy  # type: ignore[no-any-return]  # it has no types where it is not installed


def _count(cupy: ModuleType) -> int:
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise MissingPartError(
            f"arena=device needs a CUDA device, and there is none: {error}. See that nvidia-smi "
            "lists one in this machine or container, and that the extra fits its driver: pip "
            "install 'dtsflow[cuda13]' or 'dtsflow[cuda12]'. Or choose arena=host."
        ) from error
    return count


@dataclass(frozen=True, slots=True, eq=False)
class _Stream:
    """A stream's handle, and what keeps it valid."""

    handle: int
    owner: Any


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    address: int
    memory: Any


class CupyCuda:
    """`Cuda` by cupy, for device `number`."""

    def __init__(self, cupy: ModuleType, number: int) -> None:
        self._cupy = cupy
        self._runtime = cupy.cuda.runtime
        self._number = number
        self._device = cupy.cuda.Device(number)

    @cached_property
    def name(self) -> str:
        """Return the number and name of the device, for messages."""
        properties = self._runtime.getDeviceProperties(self._number)
        return f"device {self._number} ({properties['name'].decode()})"

    def allocate(self, nbytes: int) -> Block:
        """Memory of the device, from cudaMalloc itself, not from cupy's pool."""
        try:
            with self._device:
                memory = self._cupy.cuda.Memory(nbytes)
        except self._runtime.CUDARuntimeError as error:
            if error.status != _OUT_OF_MEMORY:
                raise self._failure("allocating memory", error) from error
            with self._device:
                free, total = self._runtime.memGetInfo()
            raise MemoryPlanError(
                f"the plan takes {nbytes} bytes of {self.name}, and {free} of its {total} are "
                "free. Make batches or images smaller, or end what else uses the device."
            ) from error
        return _Block(memory.ptr, memory)

    def pinned(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Zeros in page-locked memory of the host."""
        try:
            with self._device:
                memory = self._cupy.cuda.PinnedMemory(nbytes)
        except self._runtime.CUDARuntimeError as error:
            if error.status != _OUT_OF_MEMORY:
                raise self._failure("allocating pinned memory", error) from error
            raise MemoryPlanError(
                f"a zone of {nbytes} bytes cannot be locked in the memory of the host. Make the "
                "batch smaller, or raise what this process may lock (ulimit -l)."
            ) from error
        pointer = self._cupy.cuda.PinnedMemoryPointer(memory, 0)
        zone = np.frombuffer(pointer, np.uint8, nbytes)
        zone[:] = 0
        return zone

    def array(self, block: Block, offset: int, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """Return a cupy array of the bytes of `block` from `offset` on."""
        assert isinstance(block, _Block)
        pointer = self._cupy.cuda.MemoryPointer(block.memory, offset)
        return self._cupy.ndarray(tuple(shape), dtype, pointer)

    def stream(self) -> Stream:
        """Return a new stream that does not wait for the legacy default one."""
        with self._device:
            owner = self._cupy.cuda.Stream(non_blocking=True)
        return _Stream(owner.ptr, owner)

    def consumer_stream(self, given: Any) -> Stream:
        """Return the stream of cupy, torch, any `__cuda_stream__`, or a handle."""
        if given is None:
            with self._device:
                given = self._cupy.cuda.get_current_stream()
        handle = getattr(given, "ptr", getattr(given, "cuda_stream", given))
        if hasattr(handle, "__cuda_stream__"):
            _, handle = handle.__cuda_stream__()
        if not isinstance(handle, int):
            raise PlanError(
                f"stream={given!r} is no CUDA stream. Give one of cupy or torch, or its handle."
            )
        return _Stream(handle, given)

    def event(self) -> Event:
        """Return a new event, on which a thread sleeps rather than spins."""
        with self._device:
            return self._cupy.cuda.Event(block=True, disable_timing=True)

    def record(self, event: Event, stream: Stream) -> None:
        """Let `event` mean all work that `stream` has been given so far."""
        with self._calling("recording an event"):
            self._runtime.eventRecord(event.ptr, stream.handle)

    def wait(self, stream: Stream, event: Event) -> None:
        """Let later work of `stream` wait for what `event` means now."""
        with self._calling("ordering two streams"):
            self._runtime.streamWaitEvent(stream.handle, event.ptr)

    def synchronize(self, event: Event) -> None:
        """Wait here for what `event` means now; other threads go on."""
        with self._calling("waiting for a copy"):
            self._runtime.eventSynchronize(event.ptr)

    def copy(self, target: int, source: int, nbytes: int, stream: Stream) -> None:
        """Copy from address to address, as work of `stream`."""
        with self._calling(f"copying {nbytes} bytes"):
            kind = self._runtime.memcpyDefault
            self._runtime.memcpyAsync(target, source, nbytes, kind, stream.handle)

    def fill(self, address: int, byte: int, nbytes: int, stream: Stream) -> None:
        """Set bytes of the device, as work of `stream`."""
        with self._calling(f"setting {nbytes} bytes"):
            self._runtime.memsetAsync(address, byte, nbytes, stream.handle)

    def launch(self, kernel: str, threads: int, arguments: Sequence[int], stream: Stream) -> None:
        """Run a kernel of normalize.cu, as work of `stream`."""
        blocks = min(-(-threads // _BLOCK), _MOST_BLOCKS)
        passed = tuple(np.int64(argument) for argument in arguments)
        with self._calling(f"starting {kernel}"), stream.owner:
            self._kernels[kernel]((blocks,), (_BLOCK,), passed)

    def compile(self) -> None:
        """Compile the kernels now rather than at the first batch.

        Raises:
            StationError: They do not compile.
        """
        assert self._kernels

    @cached_property
    def _kernels(self) -> dict[str, Any]:
        module = self._cupy.RawModule(code=SOURCE.read_text(encoding="utf-8"))
        try:
            with self._device:
                return {name: module.get_function(name) for name in KERNELS.values()}
        except self._cupy.cuda.compiler.CompileException as error:
            raise StationError(
                f"{SOURCE.name} does not compile for {self.name}: {error}. Choose "
                "arena.normalize_on=host, and report it."
            ) from error

    @contextmanager
    def _calling(self, what: str) -> Iterator[None]:
        try:
            with self._device:
                yield
        except self._runtime.CUDARuntimeError as error:
            raise self._failure(what, error) from error

    def _failure(self, what: str, error: Exception) -> StationError:
        return StationError(
            f"{self.name}: {what} failed: {error}. A device reports the faults of earlier "
            "work, too: run once with CUDA_LAUNCH_BLOCKING=1 to see which work it was."
        )
