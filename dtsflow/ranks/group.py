"""The interface between the processes of one run, and the group of one process.

`Group` is what every kind of ranks satisfies. `Rank` says which process of the run this
one is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol, runtime_checkable

from dtsflow.errors import RanksError


@dataclass(frozen=True, slots=True)
class Rank:
    """Process `index` of `size`; on its node it is `local_index` of `local_size`.

    Attributes:
        cpu_share: CPUs that are this process's part of its node's; None: not known.
    """

    index: int
    size: int
    node: int = 0
    local_index: int = 0
    local_size: int = 1
    cpu_share: int | None = None


@runtime_checkable
class RanksConfig(Protocol):
    """The configured way in which the processes of a run find each other."""

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
        """Return which of them this process is."""

    @property
    def is_alone(self) -> bool:
        """Tell whether this process exchanges texts with no other."""

    @property
    def peers(self) -> Sequence[int]:
        """Return the ranks on this node, by their local index."""

    def gather_texts(self, text: str, *, timeout_s: float | None = None) -> list[str]:
        """Return the texts of all ranks, in their order, on every rank.

        All ranks call it, and equally often; so it is a barrier, too.

        Raises:
            RanksError: A rank did not come within `timeout_s`, by default that of the
                configuration.
        """

    def abort(self, reason: str, status: int = 1) -> NoReturn:
        """End all ranks at once; this one reports `reason`, the exit code is `status`.

        If several ranks call it at the same time, one or a few of them report their
        reasons. A process that is alone is not ended.

        Raises:
            RanksError: This process is alone; the message is the reason.
        """

    def close(self) -> None:
        """Leave the group in good order; the others may go on. Safe to call again."""


def broadcast(group: Group, text: str) -> str:
    """Return on every rank what rank 0 passes as `text`; all ranks call it."""
    return group.gather_texts(text if group.rank.index == 0 else "")[0]


class SingleProcess:
    """A process that exchanges texts with no other; satisfies Group.

    Args:
        rank: The part of the run that it does, by default all. So a plan for one of
            several ranks can be opened without the others.
    """

    def __init__(self, rank: Rank | None = None) -> None:
        self._rank = rank or Rank(index=0, size=1)

    @property
    def rank(self) -> Rank:
        """Return which part of the run this process does."""
        return self._rank

    @property
    def is_alone(self) -> bool:
        """Return True."""
        return True

    @property
    def peers(self) -> Sequence[int]:
        """Return this rank alone."""
        return (self._rank.index,)

    def gather_texts(self, text: str, *, timeout_s: float | None = None) -> list[str]:  # noqa: ARG002
        """Return its own text."""
        return [text]

    def abort(self, reason: str, status: int = 1) -> NoReturn:  # noqa: ARG002
        """Raise a RanksError with `reason`."""
        raise RanksError(reason)

    def close(self) -> None:
        """Do nothing: there is no group to leave."""
