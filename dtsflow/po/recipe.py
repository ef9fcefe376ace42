"""Which chains the compiled core draws for, so that a chunk is one call of it."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from dtsflow.native.drawing import Drawing
from dtsflow.po.normalize import Normalize
from dtsflow.po.operation import Operation

Drawings = list[tuple[int, int, tuple[float, ...]]]
"""Kind, position in the chain and numbers of each step's drawing."""


@runtime_checkable
class Drawn(Protocol):
    """An operation whose draws the core makes too, with the same result to the bit.

    It has a step in the core, and its parameters are what that takes.
    """

    @property
    def drawing(self) -> Drawing | tuple[Drawing, ...] | None:
        """How the core does what `draw` and `out_sizes` do; None where it cannot.

        As many as it has steps. A subclass does not inherit it, since it may draw
        otherwise.
        """


def drawings(operations: Sequence[Operation]) -> Drawings | None:
    """The drawings of a chain; None where the core cannot draw for all of it."""
    found: Drawings = []
    for position, operation in enumerate(operations):
        own = drawings_at(position, operation)
        if own is None:
            return None
        found += own
    return found


def drawings_at(position: int, operation: Operation) -> Drawings | None:
    """The drawings of the operation at a place of its chain; None: the core has none.

    Normalize, which draws nothing and is no step, has an empty list of them.
    """
    if isinstance(operation, Normalize):
        return []
    is_its_own = "drawing" in vars(type(operation))
    own = operation.drawing if is_its_own and isinstance(operation, Drawn) else None
    if own is None:
        return None
    steps = own if isinstance(own, tuple) else (own,)
    return [(int(one.kind), position, tuple(map(float, one.numbers))) for one in steps]
