"""A group of one process."""

from collections.abc import Sequence
from typing import NoReturn

from dtsflow.errors import RanksError
from dtsflow.ranks.rank import Rank


class Alone:
    """This process is all there is; satisfies Group."""

    @property
    def rank(self) -> Rank:
        """Rank 0 of 1."""
        return Rank(index=0, size=1)

    @property
    def peers(self) -> Sequence[int]:
        """Itself."""
        return (0,)

    def gather_texts(self, text: str, *, timeout_s: float | None = None) -> list[str]:  # noqa: ARG002
        """Its own text."""
        return [text]

    def abort(self, reason: str, status: int = 1) -> NoReturn:  # noqa: ARG002
        """Raise a RanksError with `reason`."""
        raise RanksError(reason)

    def close(self) -> None:
        """Nothing to leave."""
