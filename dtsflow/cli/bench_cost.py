"""The cost of operations: microseconds an image, of one thread.

The reference and the native form get the same images and the same parameters, drawn
once. Both write whole rows, as in a run, so what DoNothing costs is in every figure.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dtsflow.native.core import Status
from dtsflow.po.mixup import pair
from dtsflow.po.native import DrawnParams, EncodedSamples, FusedProgram, Lowered, Rows
from dtsflow.po.normalize import Normalize
from dtsflow.po.operation import Draws, Image, Operation, Params, Row
from dtsflow.po.program import Program
from dtsflow.seed.draws import batch_draws
from dtsflow.spec import ImageSpec
from dtsflow.tensor.dtype import DType

_SEED = 5  # any would do; with this one Mixup shows two images, not nearly one


@runtime_checkable
class BatchOperation(Protocol):
    """An operation that changes the rows of a lane together, such as Mixup."""

    @property
    def words(self) -> int:
        """Return how many random words a lane needs."""

    def draw(self, draws: Draws, height: int, width: int) -> Params:
        """Choose the parameters of lanes."""

    def apply(
        self,
        rows: npt.NDArray[Any],
        params: Row,
        partners: npt.NDArray[np.int64],
        *,
        dtype: DType,
    ) -> npt.NDArray[Any]:
        """Make the mixed rows."""

    def mix(
        self,
        core: ModuleType,
        rows: npt.NDArray[Any],
        params: Row,
        partners: npt.NDArray[np.int64],
        *,
        dtype: DType,
    ) -> None:
        """Make the same of `rows` itself, by the compiled core."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds an image, one number a repeat.

    Attributes:
        draw: Drawing the parameters of all images at once, by the core where it can.
        reference: By NumPy and Pillow.
        native: By the compiled core; None where it has no form of this, or is absent.
    """

    draw: list[float]
    reference: list[float]
    native: list[float] | None


class Work:
    """Operations one after another on given images, in both forms.

    Args:
        operations: What is run, of epoch 0.
        images: What they run on, all of the same channels.
        stored_channels: Channels of a written pixel, padding included; None: no more
            than it has.

    Raises:
        PlanError: An operation refuses such images.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        images: Sequence[Image],
        stored_channels: Callable[[int, DType], int] | None = None,
    ) -> None:
        self.operations = tuple(operations)
        self.images = images
        self.specs = list(accumulate(operations, _out_spec, initial=_spec(images)))
        self._program = Program(self.operations, self.specs)
        self._sizes = np.array([image.shape[:2] for image in images], np.int64)
        self._params, self._traced = self._draw(self._program)
        last = self.specs[-1]
        self._padded = stored_channels(last.channels, last.dtype) if stored_channels else None

    def drawing(self, core: ModuleType | None) -> Callable[[], object]:
        """Return a call that draws all images' parameters, in the core if it can."""
        program = Program(self.operations, self.specs, core)
        return lambda: self._draw(program)

    def empty(self) -> list[npt.NDArray[Any]]:
        """Somewhere for the results, channel padding left out."""
        last = self.specs[-1]
        shapes = [(*size, last.channels) for size in self._traced[-1].tolist()]
        return [np.zeros(shape, last.dtype.numpy) for shape in shapes]

    def reference(self, out: Sequence[npt.NDArray[Any]]) -> None:
        """Fill `out`, one array an image, by the reference."""
        for number, image in enumerate(self.images):
            self._program.run(image, out[number], self._params, number, self._traced)

    def native(self, core: ModuleType) -> Callable[[], list[npt.NDArray[Any]]] | None:
        """Return a call that runs the core and gives what it wrote.

        None: the operation has no form in the core.
        """
        if not any(isinstance(one, Lowered | Normalize) for one in self.operations):
            return None
        last = self.specs[-1]
        channels = self._padded or last.channels
        shapes = [(*size, channels) for size in self._traced[-1].tolist()]
        nbytes = np.array([np.prod(shape) * last.dtype.numpy.itemsize for shape in shapes])
        ends = nbytes.cumsum()
        memory = np.zeros(ends[-1], np.uint8)
        found = [
            memory[end - size : end].view(last.dtype.numpy).reshape(shape)
            for end, size, shape in zip(ends, nbytes, shapes, strict=True)
        ]
        # A chain leaves one size; one operation may leave several, and then it is the
        # core that writes, by the offsets alone.
        whole = memory.view(last.dtype.numpy)
        padded = whole.reshape(-1, *shapes[0]) if len(set(shapes)) == 1 else whole[None]
        rows = Rows(memory, ends - nbytes, padded, np.arange(len(found)), last.channels)
        fused = FusedProgram(core, self.operations, self.specs, channels)
        stored = _stored(self.images)
        chosen = DrawnParams(self._params, self._traced, np.ones(len(found), np.int64))

        def run() -> list[npt.NDArray[Any]]:
            status = fused.run(stored, chosen, rows, encoded=False)
            assert (status == Status.OK).all()
            return [one[..., : last.channels] for one in found]

        return run

    def results(self) -> list[npt.NDArray[Any]]:
        """Return what the reference makes of the images."""
        out = self.empty()
        self.reference(out)
        return out

    def _draw(self, program: Program) -> tuple[list[Params], list[npt.NDArray[np.int64]]]:
        """Draw the parameters of all images, and trace their sizes."""
        return program.draw_with_sizes(
            seed=_SEED, ids=np.arange(len(self.images)), epoch=0, phase=0, sizes=self._sizes
        )


def stages(operations: Sequence[Operation], images: Sequence[Image]) -> list[Work]:
    """Return each operation of a chain, on what those before it make of `images`.

    One behind Normalize gets what enters that: it runs in the same final write.

    Raises:
        PlanError: An operation refuses what those before it leave.
    """
    found: list[Work] = []
    for operation in operations:
        work = Work([operation], images)
        found.append(work)
        if work.specs[-1].dtype is DType.UINT8:
            images = work.results()
    return found


def cost(work: Work, core: ModuleType | None, *, repeats: int) -> Cost:
    """Measure operations, each form `repeats` times after one that is not counted."""
    out, count = work.empty(), len(work.images)
    native = None if core is None else work.native(core)
    return Cost(
        draw=_timed(work.drawing(core), count, repeats),
        reference=_timed(lambda: work.reference(out), count, repeats),
        native=None if native is None else _timed(native, count, repeats),
    )


def mixed(operation: BatchOperation, rows: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """Return what a batch operation makes of rows, taken as those of one lane."""
    return _mix(operation, rows, _draw_lane(operation, rows))


def batch_cost(
    operation: BatchOperation,
    rows: npt.NDArray[np.uint8],
    core: ModuleType | None,
    *,
    repeats: int,
) -> Cost:
    """Measure a batch operation on rows taken as a lane's.

    The core mixes in place, so of each repeat it makes something else.
    """
    drawn, count = _draw_lane(operation, rows), len(rows)
    native = None if core is None else _native_mix(operation, rows, drawn, core)
    return Cost(
        draw=_timed(lambda: _draw_lane(operation, rows), count, repeats),
        reference=_timed(lambda: _mix(operation, rows, drawn), count, repeats),
        native=None if native is None else _timed(native, count, repeats),
    )


def _native_mix(
    operation: BatchOperation, rows: npt.NDArray[np.uint8], drawn: Params, core: ModuleType
) -> Callable[[], None]:
    own, partners = rows.copy(), _partners(rows, drawn)
    return lambda: operation.mix(core, own, drawn[0], partners, dtype=DType.UINT8)


def _mix(operation: BatchOperation, rows: npt.NDArray[np.uint8], drawn: Params) -> npt.NDArray[Any]:
    return operation.apply(rows, drawn[0], _partners(rows, drawn), dtype=DType.UINT8)


def _partners(rows: npt.NDArray[np.uint8], drawn: Params) -> npt.NDArray[np.int64]:
    return pair(np.ones(len(rows), bool), int(drawn[0]["shift"]))


def _draw_lane(operation: BatchOperation, rows: npt.NDArray[np.uint8]) -> Params:
    draws = batch_draws(
        seed=_SEED, step=0, epoch=0, phase=0, lanes=np.zeros(1, np.int64), words=operation.words
    )
    return operation.draw(draws, *rows.shape[1:3])


def _timed(call: Callable[[], object], count: int, repeats: int) -> list[float]:
    call()
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        found.append((time.perf_counter() - began) / count * 1e6)
    return found


def _out_spec(spec: ImageSpec, operation: Operation) -> ImageSpec:
    return operation.out_spec(spec)


def _spec(images: Sequence[Image]) -> ImageSpec:
    shapes = {image.shape for image in images}
    if len(shapes) == 1:
        return ImageSpec(*images[0].shape)
    return ImageSpec(None, None, images[0].shape[2])


def _stored(images: Sequence[Image]) -> EncodedSamples:
    sizes = np.array([image.size for image in images], np.int64)
    memory = np.concatenate([image.reshape(-1) for image in images])
    shapes = np.array([image.shape[:2] for image in images], np.int32)
    return EncodedSamples(memory, sizes.cumsum() - sizes, sizes, shapes)
