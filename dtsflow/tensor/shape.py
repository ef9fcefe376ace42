"""The shape of a tensor: always four sides, batch x height x width x channels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import index

from dtsflow.errors import MemoryPlanError

RANK = 4


@dataclass(frozen=True, slots=True)
class Shape:
    """Four positive sides in NHWC order; iterating gives them in that order.

    Raises:
        MemoryPlanError: A side is not a positive whole number.
    """

    n: int
    h: int
    w: int
    c: int

    def __post_init__(self) -> None:
        for name in ("n", "h", "w", "c"):
            side = getattr(self, name)
            if not isinstance(side, int) or side < 1:
                raise MemoryPlanError(
                    f"shape {self}: {name} is {side!r}, and every side must be a whole "
                    "number of at least 1. A side that is not used is 1."
                )

    def __iter__(self) -> Iterator[int]:
        return iter((self.n, self.h, self.w, self.c))

    def __str__(self) -> str:
        return f"[{self.n},{self.h},{self.w},{self.c}]"

    @classmethod
    def from_logical(cls, dims: Sequence[int]) -> "Shape":
        """Store one to four dimensions, batch first, channels last.

        The first stays n; the others are right-aligned, so that the last is c: (B,) is
        [B,1,1,1], (B, D) is [B,1,1,D] and (B, L, D) is [B,1,L,D].

        Raises:
            MemoryPlanError: There are no dimensions or more than four, or one is not
                positive.
        """
        if not 1 <= len(dims) <= RANK:
            raise MemoryPlanError(
                f"a tensor with {len(dims)} dimensions, {tuple(dims)}, was asked for, and "
                f"a slot holds 1 to {RANK}. Merge dimensions, or split the field."
            )
        first, *rest = (index(side) for side in dims)
        return cls(first, *([1] * (RANK - len(dims))), *rest)

    @property
    def numel(self) -> int:
        """Return how many elements it holds, channel padding not counted."""
        return self.n * self.h * self.w * self.c
