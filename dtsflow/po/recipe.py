"""Which chains the compiled core draws for, so that a chunk is one call of it."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from dtsflow.native.drawing import Drawing
from dtsflow.po.normalize import Normalize
from dtsflow.po.operation import Operation

Drawings = list[tuple[int, int, tuple[float, ...]]]
"""Kind, position in the chain and numbers of each operation's drawing."""


@runtime_checkable
class Drawn(Protocol):
    """An operation whose draws the core makes too, with the same result to the bit.

    It takes one step of the core, and its parameters are WINDOW or FLIP rows.
    """

    @property
    def drawing(self) -> Drawing | None:
        """How the core does what `draw` and `out_sizes` do; None where it cannot.

        A subclass does not inherit it, since it may draw otherwise.
        """


def drawings(operations: Sequence[Operation]) -> Drawings | None:
    """The drawings of a chain; None where the core cannot draw for all of it."""
    found: Drawings = []
    for position, operation in enumerate(operations):
        if isinstance(operation, Normalize):
            continue
        is_its_own = "drawing" in vars(type(operation))
        drawing = operation.drawing if is_its_own and isinstance(operation, Drawn) else None
        if drawing is None:
            return None
        found.append((int(drawing.kind), position, tuple(map(float, drawing.numbers))))
    return found
