"""The processes of one run, as they reach each other."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn, Protocol, runtime_checkable

from dtsflow.ranks.rank import Rank


@runtime_checkable
class RanksConfig(Protocol):
    """How the processes of a run find each other, as configured."""

    def join(self, folder: Path | None, environ: Mapping[str, str] | None = None) -> "Group":
        """Join the processes of the run in `folder`; None: a run without a folder.

        `environ` stands in for the environment of this process.

        Raises:
            RanksError: Launcher and configuration do not agree, several processes have
                no folder, or one did not come.
            MissingPartError: A library that it needs is absent.
        """


class Group(Protocol):
    """All processes of a run; what `ranks.join` returns on each.

    It serves the start and the end of a run: no batch waits for another rank.
    """

    @property
    def rank(self) -> Rank:
        """Which of them this process is."""

    @property
    def is_alone(self) -> bool:
        """Whether this process hears of no other."""

    @property
    def peers(self) -> Sequence[int]:
        """The ranks on this node, by their local index."""

    def gather_texts(self, text: str, *, timeout_s: float | None = None) -> list[str]:
        """The texts of all ranks, in their order, on every rank.

        All ranks call it, and equally often; so it is a barrier, too.

        Raises:
            RanksError: A rank did not come within `timeout_s`, by default that of the
                configuration.
        """

    def abort(self, reason: str, status: int = 1) -> NoReturn:
        """End all ranks at once, with `reason` told by this one and exit code `status`.

        Where several ranks call it at the same time, one of them tells its reason, or
        few. A process that is alone is not ended.

        Raises:
            RanksError: This process is alone; with the reason.
        """

    def close(self) -> None:
        """Leave the group in good order; the others may go on. Safe to call again."""


def broadcast(group: Group, text: str) -> str:
    """What rank 0 passes as `text`, on every rank; all ranks call it."""
    return group.gather_texts(text if group.rank.index == 0 else "")[0]
