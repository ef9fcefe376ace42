"""A chain as the compiled core runs it: decode, operations and write in one call.

The file also decides for which chains the core draws, so that a chunk is one call of
it.

Operations that the core knows run in it, one after another, on scratch of the calling
thread; flips at the end and the normalisation merge into the one write to the row. An
operation it does not know splits the chain: native before it, Python for it, native
after it, with the same result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dtsflow.native.core import (
    AS_STORED,
    CASTS,
    OWN_FIRST,
    STEP_NUMBERS,
    Drawing,
    Finish,
    Status,
    StepKind,
)
from dtsflow.po.flip import FLIP
from dtsflow.po.geometry import WINDOW
from dtsflow.po.normalize import Normalize
from dtsflow.po.operation import Image, Operation, Params, Sizes
from dtsflow.seed.exact import quantiles
from dtsflow.spec import ImageSpec

Drawings = list[tuple[int, int, tuple[float, ...]]]
"""Kind, position in the chain and numbers of each step's drawing."""


@runtime_checkable
class Drawn(Protocol):
    """An operation whose draws the core makes too, with the same result to the bit.

    It has a step in the core, and its parameters are what that takes.
    """

    @property
    def drawing(self) -> Drawing | tuple[Drawing, ...] | None:
        """Return how the core does what `draw` and `out_sizes` do.

        None where it cannot.

        As many as it has steps. A subclass does not inherit it, since it may draw
        otherwise.
        """


def drawings(operations: Sequence[Operation]) -> Drawings | None:
    """Return the drawings of a chain; None where the core cannot draw for all of it."""
    found: Drawings = []
    for position, operation in enumerate(operations):
        own = drawings_at(position, operation)
        if own is None:
            return None
        found += own
    return found


def drawings_at(position: int, operation: Operation) -> Drawings | None:
    """Return the drawings of the operation at a place of its chain.

    None: the core has none.

    Normalize, which draws nothing and is not a step, has an empty list of them.
    """
    if isinstance(operation, Normalize):
        return []
    is_its_own = "drawing" in vars(type(operation))
    own = operation.drawing if is_its_own and isinstance(operation, Drawn) else None
    if own is None:
        return None
    steps = own if isinstance(own, tuple) else (own,)
    return [(int(one.kind), position, tuple(map(float, one.numbers))) for one in steps]


Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]


@runtime_checkable
class Lowered(Protocol):
    """An operation that the core has a step for."""

    @property
    def step(self) -> StepKind:
        """Return the step.

        The operation's parameters are WINDOW rows, FLIP rows or its own.

        Own rows have 4 to 64 bytes, a multiple of four, all of which the core reads as
        they are: a structured dtype of 4-byte fields, mostly. An operation may take
        several steps, one after another: it then says how many as `steps`, and its rows
        are as many such parts.
        """


@dataclass(frozen=True, slots=True)
class Part:
    """Neighbouring operations of a chain, `start` to `stop`, that run on one side."""

    start: int
    stop: int
    is_native: bool


def divide(operations: Sequence[Operation]) -> list[Part]:
    """Cut a chain into parts, native and Python in turn; the first is always native.

    A Python operation is a part of its own. The last part writes the row.
    """
    parts: list[Part] = []
    start = 0
    for position, operation in enumerate(operations):
        if isinstance(operation, Lowered | Normalize):
            continue
        if position > start or not parts:
            parts.append(Part(start, position, is_native=True))
        parts.append(Part(position, position + 1, is_native=False))
        start = position + 1
    if start < len(operations) or not parts:
        parts.append(Part(start, len(operations), is_native=True))
    return parts


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The memory where rows are written.

    Attributes:
        memory: The bytes that `padded` lies in.
        offsets: Where in `memory` each sample's row begins.
        padded: All rows with padded channels (B, H, W, padded C).
        places: Which of them is each sample's.
        channels: Channels that are not padding.
    """

    memory: npt.NDArray[np.uint8]
    offsets: Ints
    padded: npt.NDArray[Any]
    places: Ints
    channels: int

    def __getitem__(self, samples: slice | Ints) -> "Rows":
        return Rows(
            self.memory, self.offsets[samples], self.padded, self.places[samples], self.channels
        )


@dataclass(frozen=True, slots=True, eq=False)
class EncodedSamples:
    """Samples as bytes in one memory: JPEGs, or pixels.

    Attributes:
        memory: Where they lie.
        offsets: Where each begins.
        sizes: Bytes of each.
        shapes: Height and width of each, int32 (n, 2).
    """

    memory: npt.NDArray[np.uint8]
    offsets: Ints
    sizes: Ints
    shapes: Numbers

    def __getitem__(self, samples: slice | Ints) -> "EncodedSamples":
        return EncodedSamples(
            self.memory, self.offsets[samples], self.sizes[samples], self.shapes[samples]
        )

    @classmethod
    def of(cls, image: Image) -> "EncodedSamples":
        """Return one decoded image."""
        flat = np.ascontiguousarray(image).reshape(-1)
        shape = np.array([image.shape[:2]], np.int32)
        return cls(flat, np.zeros(1, np.int64), np.array([flat.size], np.int64), shape)


@dataclass(frozen=True, slots=True, eq=False)
class DrawnParams:
    """The parameters drawn for the samples of a chunk.

    Attributes:
        params: Parameters of each operation.
        sizes: Sizes that enter each operation, then those that leave the last.
        scales: One part in how many of its size each JPEG is decoded at.
    """

    params: Sequence[Params]
    sizes: Sequence[Sizes]
    scales: Ints

    def __getitem__(self, samples: slice | Ints) -> "DrawnParams":
        return DrawnParams(
            [of_one[samples] for of_one in self.params],
            [size[samples] for size in self.sizes],
            self.scales[samples],
        )


class FusedProgram:
    """Runs a checked chain by the core; serves one worker.

    Args:
        core: The compiled module.
        operations: The chain.
        specs: Those of `Chain.specs`.
        stored_channels: Channels of a pixel in a row, padding included.
    """

    def __init__(
        self,
        core: ModuleType,
        operations: Sequence[Operation],
        specs: Sequence[ImageSpec],
        stored_channels: int,
    ) -> None:
        self._core = core
        self._operations = tuple(operations)
        self._specs = tuple(specs)
        self._parts = divide(operations)
        self._last = self._parts[-1]
        self._stored_channels = stored_channels
        self._encoded = self._program(self._parts[0], encoded=True)
        self._pixels = [
            self._program(part, encoded=False) if part.is_native else None for part in self._parts
        ]

    def run(
        self, stored: EncodedSamples, chosen: DrawnParams, rows: Rows, *, encoded: bool
    ) -> npt.NDArray[np.int32]:
        """Fill the rows of a chunk; answers one `Status` a sample."""
        if len(self._parts) == 1:
            program = self._encoded if encoded else self._pixels[0]
            packed = self._pack(chosen, self._last)
            return self._call(program, stored, packed, rows, _shapes(chosen.sizes[-1]))
        ones = [slice(i, i + 1) for i in range(len(chosen.scales))]
        found = [self._run_one(stored[i], chosen[i], rows[i], encoded=encoded) for i in ones]
        return np.array(found, np.int32)

    def recipe(
        self, pixels: ImageSpec | None, *, apply_orientation: bool, shrinks: bool
    ) -> Any | None:
        """Return the chain with its draws, for `fill_chunk`.

        None where Python has a part.

        `pixels` is the one image of a pixel set, None where samples are encoded.
        """
        steps = drawings(self._operations) if len(self._parts) == 1 else None
        if steps is None:
            return None
        drawn = self._core.Drawings(steps)
        program = self._encoded if pixels is None else self._pixels[0]
        stored = (0, 0) if pixels is None else (pixels.height, pixels.width)
        out = (self._specs[-1].height, self._specs[-1].width)
        return self._core.Recipe(program, drawn, stored, apply_orientation, shrinks, out)

    def _run_one(
        self, image: EncodedSamples, chosen: DrawnParams, row: Rows, *, encoded: bool
    ) -> int:
        """Run a split chain on one sample."""
        for number, part in enumerate(self._parts):
            if not part.is_native:
                image = EncodedSamples.of(self._apply(part, image, chosen, row))
                continue
            program = self._encoded if encoded and number == 0 else self._pixels[number]
            packed = self._pack(chosen, part)
            shapes = _shapes(chosen.sizes[part.stop])
            if part is self._last:
                return int(self._call(program, image, packed, row, shapes)[0])
            between = np.empty((*shapes[0].tolist(), self._specs[0].channels), np.uint8)
            zero = np.zeros(1, np.int64)
            target = Rows(between.reshape(-1), zero, between[None], zero, between.shape[-1])
            status = int(self._call(program, image, packed, target, shapes)[0])
            if status != Status.OK:
                return status
            image = EncodedSamples.of(between)
        return Status.OK

    def _apply(self, part: Part, image: EncodedSamples, chosen: DrawnParams, row: Rows) -> Image:
        """Run one Python operation; the last one writes into the row."""
        operation, params = self._operations[part.start], chosen.params[part.start][0]
        source = image.memory.reshape(*image.shapes[0].tolist(), -1)
        if part is self._last:
            whole = row.padded[row.places[0]]
            operation.apply(source, whole[..., : row.channels], params)
            whole[..., row.channels :] = 0
            return source
        height, width = chosen.sizes[part.stop][0].tolist()
        made = np.empty((height, width, self._specs[part.stop].channels), np.uint8)
        operation.apply(source, made, params)
        return made

    def _call(
        self,
        program: Any,
        stored: EncodedSamples,
        packed: Numbers,
        rows: Rows,
        shapes: Numbers,
    ) -> npt.NDArray[np.int32]:
        status = np.empty(len(stored.offsets), np.int32)
        self._core.run_chunk(
            program,
            stored.memory,
            stored.offsets,
            stored.sizes,
            stored.shapes,
            packed,
            rows.memory,
            rows.offsets,
            shapes,
            status,
        )
        return status

    def _pack(self, chosen: DrawnParams, part: Part) -> Numbers:
        """Return the parameters of a native part as the core reads them."""
        positions = [
            (position, number)
            for position in range(part.start, part.stop)
            if not isinstance(self._operations[position], Normalize)
            for number in range(_steps(self._operations[position]))
        ]
        packed = np.zeros((len(positions), len(chosen.scales), STEP_NUMBERS), np.int32)
        for step, (position, number) in enumerate(positions):
            params = chosen.params[position]
            if params.dtype == WINDOW:
                packed[step, :, :4] = params.view(np.int32).reshape(-1, 4)
            elif params.dtype == FLIP:
                packed[step, :, 0] = params["flip"]
            else:
                steps = _steps(self._operations[position])
                own = params.view(np.int32).reshape(len(params), steps, -1)[:, number]
                packed[step, :, OWN_FIRST : OWN_FIRST + own.shape[1]] = own
            packed[step, :, 4:6] = chosen.sizes[position + 1]
        packed[:, :, 6] = chosen.scales
        return packed

    def _program(self, part: Part, *, encoded: bool) -> Any:
        own = self._operations[part.start : part.stop]
        kinds = [
            int(operation.step)
            for operation in own
            if isinstance(operation, Lowered)
            for _ in range(_steps(operation))
        ]
        finish: Finish = AS_STORED
        for operation in own:
            if isinstance(operation, Normalize):
                finish = operation.finish(self._specs[0].channels)
        channels = self._specs[part.stop].channels
        return self._core.Program(
            kinds,
            encoded,
            channels,
            self._stored_channels if part is self._last else channels,
            CASTS[finish.dtype],
            finish.scale,
            finish.offset,
            np.ascontiguousarray(finish.table).view(np.uint8).reshape(-1),
            quantiles() if StepKind.NOISE in kinds else None,
        )


def _steps(operation: Operation) -> int:
    """Return how many steps of the core an operation takes."""
    steps: int = getattr(operation, "steps", 1)
    return steps


def _shapes(sizes: Sizes) -> Numbers:
    return np.ascontiguousarray(sizes, np.int32)
