"""A chain in two parts: up to an image that can be kept, and what is done to it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PlanError
from dtsflow.po.branch import Branch
from dtsflow.po.erasing import RandomErasing
from dtsflow.po.fused import Chosen
from dtsflow.po.normalize import Normalize
from dtsflow.po.operation import Operation, Params, Sizes
from dtsflow.seed.draws import operation_draws
from dtsflow.spec import ImageSpec
from dtsflow.tensor.dtype import DType


@dataclass(frozen=True, slots=True)
class CutChain:
    """A chain that is cut before what erases, normalises or casts.

    The head makes an UINT8 image, the tail makes of it what the whole chain would.

    Attributes:
        head: The operations before the cut.
        tail: Those behind it.
    """

    head: Branch
    tail: Branch

    @classmethod
    def of(cls, branch: Branch) -> "CutChain":
        """Cut a checked chain.

        Raises:
            PlanError: The images at the cut differ in size, so no room fits them all.
        """
        place = next(
            (
                position
                for position, operation in enumerate(branch.operations)
                if isinstance(operation, Normalize | RandomErasing)
                or branch.specs[position + 1].dtype is not DType.UINT8
            ),
            len(branch.operations),
        )
        spec = branch.specs[place]
        if spec.height is None or spec.width is None:
            raise PlanError(
                f"the images that {type(branch.operations[place]).__name__} gets are {spec}, of "
                "different sizes, and only those of one size can be kept for later epochs. Put "
                "an operation that makes one size, as Resize with fit: exact, before it."
            )
        return cls(
            head=Branch(branch.operations[:place], branch.specs[: place + 1]),
            tail=Branch(branch.operations[place:], branch.specs[place:]),
        )

    @property
    def kept(self) -> ImageSpec:
        """The image at the cut."""
        return self.head.out_spec

    def tail_draws(self) -> "TailDraws":
        """What chooses the parameters of the tail."""
        return TailDraws(len(self.head.operations), self.tail.operations, self.kept)


class TailDraws:
    """Draws for the last operations of a chain, as the whole chain would.

    Args:
        first: The place of the first of them in the chain.
        operations: They themselves.
        spec: What enters them, all of one size.
    """

    def __init__(self, first: int, operations: Sequence[Operation], spec: ImageSpec) -> None:
        self._first = first
        self._operations = tuple(operations)
        self._size = spec.height, spec.width
        self._words = (0,) * first + tuple(operation.words for operation in operations)

    def draw(
        self, *, seed: int, ids: npt.NDArray[np.int64], epoch: int, phase: int, view: int = 0
    ) -> Chosen:
        """Choose the parameters of a chunk."""
        chunk = operation_draws(
            seed=seed, ids=ids, epoch=epoch, phase=phase, view=view, words=self._words
        )
        drawn: list[Params] = []
        traced: list[Sizes] = [np.full((len(ids), 2), self._size, np.int64)]
        for operation, draws in zip(self._operations, chunk[self._first :], strict=True):
            drawn.append(operation.draw(draws, traced[-1]))
            traced.append(operation.out_sizes(traced[-1], drawn[-1]))
        return Chosen(drawn, traced, np.ones(len(ids), np.int64))
