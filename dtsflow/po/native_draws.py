"""Drawing in the compiled core: the rows of parameters that NumPy would have drawn."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from dtsflow.native.steps import OWN_FIRST, STEP_NUMBERS
from dtsflow.po.flip import FLIP
from dtsflow.po.operation import NOTHING, Draws, Operation, Params, Sizes
from dtsflow.po.recipe import drawings_at
from dtsflow.po.window import WINDOW

Numbers = npt.NDArray[np.int32]
Address = tuple[int, int, int, int]
"""Where the draws of a pass lie, as `pass_words` gives it."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """What an operation's parameters are made of: so many steps, and rows of a type."""

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
    """What the core draws of a chain from `first` on, by where each part begins."""
    return {
        start: NativeDraws(core, first + start, operations[start:stop])
        for start, stop in _parts(operations)
        if any(drawings_at(place, operations[place]) for place in range(start, stop))
    }


def _parts(operations: Sequence[Operation]) -> Iterator[tuple[int, int]]:
    """Where neighbours begin and end that the core can draw for."""
    can = [drawings_at(place, one) is not None for place, one in enumerate(operations)]
    for is_native, group in groupby(range(len(can)), can.__getitem__):
        places = list(group)
        if is_native:
            yield places[0], places[-1] + 1


def _dtype(operation: Operation) -> np.dtype[Any]:
    """The type of an operation's rows, which draws for no sample show."""
    none = Draws(np.empty((0, operation.words), np.uint32))
    return operation.draw(none, np.empty((0, 2), np.int64)).dtype


def _unpacked(packed: Numbers, rows: _Rows) -> Params:
    """The parameters of one operation of what the core chose for its steps."""
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
