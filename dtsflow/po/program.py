"""A chain as one worker runs it, on scratch that it keeps.

The compiled core may draw the rows of parameters that NumPy would have drawn.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from dtsflow.native.core import OWN_FIRST, STEP_NUMBERS
from dtsflow.po.erasing import RandomErasing
from dtsflow.po.flip import FLIP
from dtsflow.po.geometry import WINDOW
from dtsflow.po.native import drawings_at
from dtsflow.po.operation import NOTHING, Image, Operation, Params, Pixels, Sizes
from dtsflow.seed.address import pass_words
from dtsflow.seed.draws import Draws, operation_draws
from dtsflow.spec import ImageSpec

Numbers = npt.NDArray[np.int32]
Address = tuple[int, int, int, int]
"""Where the draws of a pass lie, as `pass_words` gives it."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """The parts of an operation's parameters: so many steps, and rows of a type."""

    steps: int
    dtype: np.dtype[Any]


class NativeDraws:
    """Neighbouring operations of a chain for which the core draws.

    Args:
        core: The compiled module.
        start: The place of the first in its chain.
        operations: They themselves, each with drawings.
    """

    def __init__(self, core: ModuleType, start: int, operations: Sequence[Operation]) -> None:
        self._core = core
        self.count = len(operations)
        found = [drawings_at(start + place, one) or [] for place, one in enumerate(operations)]
        self._drawings = core.Drawings([drawing for own in found for drawing in own])
        self._steps = sum(map(len, found))
        self._rows = [
            _Rows(len(own), _dtype(operation))
            for own, operation in zip(found, operations, strict=True)
        ]

    def draw(
        self, ids: npt.NDArray[np.int64], address: Address, sizes: Sizes
    ) -> tuple[list[Params], list[Sizes]] | None:
        """Choose the parameters of each operation, and the sizes that leave it.

        None where the reference must look at the chunk: an id has no room in an
        address, or an image gets too big.
        """
        packed = np.empty((len(ids), self._steps, STEP_NUMBERS), np.int32)
        status = np.empty(len(ids), np.int32)
        shapes = sizes.astype(np.int32)
        shrinks = False
        if self._core.draw_chunk(self._drawings, shapes, ids, address, shrinks, packed, status):
            return None
        params: list[Params] = []
        traced = [sizes]
        step = 0
        for rows in self._rows:
            params.append(_unpacked(packed[:, step : step + rows.steps], rows))
            step += rows.steps
            left = packed[:, step - 1, 4:6].astype(np.int64) if rows.steps else traced[-1]
            traced.append(left)
        return params, traced[1:]


def native_draws(
    core: ModuleType, first: int, operations: Sequence[Operation]
) -> dict[int, NativeDraws]:
    """Return what the core draws of a chain from `first` on, by start of each part."""
    return {
        start: NativeDraws(core, first + start, operations[start:stop])
        for start, stop in _parts(operations)
        if any(drawings_at(place, operations[place]) for place in range(start, stop))
    }


def _parts(operations: Sequence[Operation]) -> Iterator[tuple[int, int]]:
    """Yield where neighbours begin and end that the core can draw for."""
    can = [drawings_at(place, one) is not None for place, one in enumerate(operations)]
    for is_native, group in groupby(range(len(can)), can.__getitem__):
        places = list(group)
        if is_native:
            yield places[0], places[-1] + 1


def _dtype(operation: Operation) -> np.dtype[Any]:
    """Return the type of an operation's rows, which draws for no sample show."""
    none = Draws(np.empty((0, operation.words), np.uint32))
    return operation.draw(none, np.empty((0, 2), np.int64)).dtype


def _unpacked(packed: Numbers, rows: _Rows) -> Params:
    """Return the parameters of one operation of what the core chose for its steps."""
    count, dtype = len(packed), rows.dtype
    if dtype == NOTHING:
        return np.empty(count, dtype)
    if dtype == FLIP:
        made = np.empty(count, dtype)
        made["flip"] = packed[:, 0, 0]
        return made
    first, numbers = OWN_FIRST, dtype.itemsize // (4 * rows.steps)
    if dtype == WINDOW:
        first = 0
    own = np.ascontiguousarray(packed[:, :, first : first + numbers])
    return own.reshape(count, -1).view(dtype)[:, 0]


@dataclass(frozen=True, slots=True)
class _Pass:
    """The facts that the draws of a view in one pass have in common."""

    seed: int
    epoch: int
    phase: int
    view: int

    @property
    def address(self) -> tuple[int, int, int, int]:
        return pass_words(self.seed, self.epoch, self.phase, self.view)

    def draws(self, ids: npt.NDArray[np.int64], words: Sequence[int]) -> Sequence[Draws]:
        """So many draws for each operation."""
        if not any(words):
            return [Draws(np.empty((len(ids), 0), np.uint32))] * len(words)
        return operation_draws(
            seed=self.seed,
            ids=ids,
            epoch=self.epoch,
            phase=self.phase,
            view=self.view,
            words=words,
        )


class Program:
    """Runs a checked chain on the samples of a chunk, one by one.

    It owns two scratch images, which grow to the largest they had to hold, so it serves
    one worker. `specs` are those of `Chain.specs`. With the compiled `core`, that draws
    where it can, the same parameters. `first` is the place of the first operation in
    the chain, where these are its end.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        specs: Sequence[ImageSpec],
        core: ModuleType | None = None,
        *,
        first: int = 0,
    ) -> None:
        self._operations = tuple(operations)
        self._specs = tuple(specs)
        numbered = list(enumerate(self._operations))
        self._erasing = [(n, one) for n, one in numbered if isinstance(one, RandomErasing)]
        self._drawing = [(n, one) for n, one in numbered if not isinstance(one, RandomErasing)]
        self._first = first
        self._words = tuple(operation.words for operation in operations)
        self._native = {} if core is None else native_draws(core, first, self._operations)
        self._scratch = [np.empty(0, np.uint8), np.empty(0, np.uint8)]

    @property
    def varying(self) -> tuple[int, ...]:
        """Return which of the traced sizes may differ by sample, the first apart."""
        specs = enumerate(self._specs[1:], 1)
        return tuple(place for place, spec in specs if spec.height is None or spec.width is None)

    @property
    def out_spec(self) -> ImageSpec:
        """Return what `run` fills."""
        return self._specs[-1]

    def draw(
        self,
        *,
        seed: int,
        ids: npt.NDArray[np.int64],
        epoch: int,
        phase: int,
        sizes: Sizes,
        view: int = 0,
    ) -> list[Params]:
        """Choose a chunk's parameters: for each operation an array of len(ids) rows.

        As `draw_with_sizes`, without the sizes.
        """
        return self.draw_with_sizes(
            seed=seed, ids=ids, epoch=epoch, phase=phase, sizes=sizes, view=view
        )[0]

    def draw_with_sizes(
        self,
        *,
        seed: int,
        ids: npt.NDArray[np.int64],
        epoch: int,
        phase: int,
        sizes: Sizes,
        view: int = 0,
    ) -> tuple[list[Params], list[Sizes]]:
        """Choose a chunk's parameters, and trace the sizes through the chain.

        The sizes are those that enter each operation, then those that leave the last.
        `sizes` are those of the decoded images. The rows of a sample are the same in
        whatever chunk it comes.

        Raises:
            PlanError: An id, the epoch or the view has no room in a draw's address.
        """
        where = _Pass(seed, epoch, phase, view)
        found = self._draw(ids, sizes, where, self._native)
        if found is None:  # the core leaves the chunk to NumPy
            found = self._draw(ids, sizes, where, {})
        assert found is not None
        return found

    def _draw(
        self,
        ids: npt.NDArray[np.int64],
        sizes: Sizes,
        where: "_Pass",
        native: Mapping[int, NativeDraws],
    ) -> tuple[list[Params], list[Sizes]] | None:
        """Draw with those parts in the core; None where one of them does not."""
        words = [0] * self._first + self._words_without(native)
        chunk = where.draws(ids, words)[self._first :]
        drawn: list[Params] = []
        traced = [sizes]
        while (position := len(drawn)) < len(self._operations):
            part = native.get(position)
            if part is None:
                operation = self._operations[position]
                drawn.append(operation.draw(chunk[position], traced[-1]))
                traced.append(operation.out_sizes(traced[-1], drawn[-1]))
                continue
            found = part.draw(ids, where.address, traced[-1])
            if found is None:
                return None
            drawn += found[0]
            traced += found[1]
        return drawn, traced

    def _words_without(self, native: Mapping[int, NativeDraws]) -> list[int]:
        """Return how many random words each operation gets.

        None where the core draws.
        """
        words = list(self._words)
        for start, part in native.items():
            words[start : start + part.count] = [0] * part.count
        return words

    def run(
        self,
        image: Image,
        out: Pixels,
        params: Sequence[Params],
        i: int,
        sizes: Sequence[Sizes] | None = None,
    ) -> None:
        """Run the chain on sample `i` of the chunk that `params` was drawn for.

        `sizes` are the traced ones; an image decoded at a part of its size needs them.

        Every element of `out` is written, and no view of it or of `image` is kept.
        `out` has the shape and dtype of `out_spec`; it may be strided.
        """
        if not self._drawing:
            out[...] = image
        one = slice(i, i + 1)
        last = len(self._drawing) - 1
        for turn, (position, operation) in enumerate(self._drawing):
            rows = params[position]
            if turn == last:
                target = out
            else:
                size = None if sizes is None else sizes[position + 1][one]
                target = self._target(position, image, rows[one], size, turn % 2)
            operation.apply(image, target, rows[i])
            image = target
        for position, erasing in self._erasing:
            erasing.erase(out, params[position][i])

    def _target(
        self, position: int, image: Image, row: Params, size: Sizes | None, turn: int
    ) -> Image:
        """Scratch of the turn's, for an operation never writes where it reads."""
        spec = self._specs[position + 1]
        height, width = spec.height, spec.width
        if height is None or width is None:
            if size is None:
                entering = np.array([image.shape[:2]], np.int64)
                size = self._operations[position].out_sizes(entering, row)
            height, width = size[0].tolist()
        shape = (height, width, spec.channels)
        count = height * width * spec.channels
        if self._scratch[turn].size < count:
            self._scratch[turn] = np.empty(count, np.uint8)
        return self._scratch[turn][:count].reshape(shape)
