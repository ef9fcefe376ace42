"""A group of one process."""

from collections.abc import Sequence
from typing import NoReturn

from dtsflow.errors import RanksError
from dtsflow.ranks.rank import Rank


class Alone:
    """A process that hears of no other; satisfies Group.

    Args:
        rank: What it is to do, by default all; a plan for one of several ranks can be
            opened without the others.
    """

    def __init__(self, rank: Rank | None = None) -> None:
        self._rank = rank or Rank(index=0, size=1)

    @property
    def rank(self) -> Rank:
        """Which part it does."""
        return self._rank

    @property
    def is_alone(self) -> bool:
        """It is."""
        return True

    @property
    def peers(self) -> Sequence[int]:
        """Itself."""
        return (self._rank.index,)

    def gather_texts(self, text: str, *, timeout_s: float | None = None) -> list[str]:  # noqa: ARG002
        """Its own text."""
        return [text]

    def abort(self, reason: str, status: int = 1) -> NoReturn:  # noqa: ARG002
        """Raise a RanksError with `reason`."""
        raise RanksError(reason)

    def close(self) -> None:
        """Nothing to leave."""
