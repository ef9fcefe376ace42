"""Ranks that the environment names, as torchrun's RANK and WORLD_SIZE."""

import glob
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, NoReturn

from pydantic import Field

from dtsflow.config.configurable import configurable
from dtsflow.errors import RanksError
from dtsflow.ranks.file_rendezvous import FileRendezvous, PeerMonitor, clear, has_died
from dtsflow.ranks.group import Group, Rank, SingleProcess
from dtsflow.ranks.launcher import Whereabouts, number, place


@configurable
class Env:
    """The processes that RANK and WORLD_SIZE count; they meet in a folder.

    Attributes:
        timeout_s: How long the ranks wait for each other when they start.
    """

    timeout_s: Annotated[float, Field(gt=0)] = 600.0

    def join(self, folder: Path | None, environ: Mapping[str, str] | None = None) -> Group:
        """Join the others, beside the run's `folder`, which all ranks see.

        Raises:
            RanksError: The variables are not there or make no sense, the run has no
                folder, or a rank did not come.
        """
        environ = os.environ if environ is None else environ
        index, size = _index_and_size(environ)
        if size == 1:
            return SingleProcess()
        if folder is None:
            raise RanksError(f"{size} ranks need one run folder: give the run a name.")
        told = Whereabouts.here(
            node=environ.get("GROUP_RANK", ""),
            local_rank=number(environ, "LOCAL_RANK", least=0) if "LOCAL_RANK" in environ else None,
        )
        meeting = _meeting_folder(folder, launch_name(environ))
        if index == 0:
            _clear_dead(folder, meeting)
        meeting.mkdir(parents=True, exist_ok=True)
        return EnvGroup(meeting, (index, size), told, self.timeout_s)


def launch_name(environ: Mapping[str, str]) -> str:
    """Name this start of processes unlike any other, the same for all of them.

    Raises:
        RanksError: The environment has no such thing.
    """
    name = environ.get("TORCHELASTIC_RUN_ID", "none")
    if name == "none":  # torchrun's own word for no name
        if not ("MASTER_ADDR" in environ and "MASTER_PORT" in environ):
            raise RanksError(
                "ranks=env needs TORCHELASTIC_RUN_ID, or MASTER_ADDR and MASTER_PORT, to tell "
                "this run from others. Start with torchrun, or set them alike for all ranks."
            )
        name = f"{environ['MASTER_ADDR']}:{environ['MASTER_PORT']}"
    return f"{name} {environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"


class EnvGroup:
    """Processes that exchange texts in a folder; satisfies Group.

    Args:
        folder: Where they meet; cleared away by the last one to leave.
        of: The index of this process, and the number of processes.
        told: Where it runs.
        timeout_s: How long it waits for the others.
    """

    def __init__(
        self, folder: Path, of: tuple[int, int], told: Whereabouts, timeout_s: float
    ) -> None:
        index, size = of
        self._timeout_s = timeout_s
        self._watch = PeerMonitor(folder, index, size)
        self._meeting = FileRendezvous(folder, index, size)
        try:
            texts = self.gather_texts(told.to_text())
        except BaseException:
            self.close()
            raise
        self._watch.start()
        self._rank, self._peers = place(index, [Whereabouts.from_text(text) for text in texts])

    @property
    def rank(self) -> Rank:
        """Return which of them this process is."""
        return self._rank

    @property
    def is_alone(self) -> bool:
        """Return False: there are always others."""
        return False

    @property
    def peers(self) -> Sequence[int]:
        """Return the ranks on this node, by their local index."""
        return self._peers

    def gather_texts(self, text: str, *, timeout_s: float | None = None) -> list[str]:
        """Return the texts of all ranks, in their order, on every rank.

        Raises:
            RanksError: A rank did not come in time; rank 0 names it.
        """
        return self._meeting.gather(text, timeout_s or self._timeout_s)

    def abort(self, reason: str, status: int = 1) -> NoReturn:
        """End all ranks within seconds, with the `reason` of the first that fails."""
        self._watch.fail(reason, status)

    def close(self) -> None:
        """Leave the group; the others may go on."""
        self._meeting.leave()
        self._watch.close()


def _index_and_size(environ: Mapping[str, str]) -> tuple[int, int]:
    missing = [name for name in ("RANK", "WORLD_SIZE") if name not in environ]
    if missing:
        raise RanksError(
            f"ranks=env needs {' and '.join(missing)} in the environment, as torchrun sets them. "
            "Start with torchrun, or use ranks=auto."
        )
    index, size = number(environ, "RANK", least=0), number(environ, "WORLD_SIZE", least=1)
    if index >= size:
        raise RanksError(
            f"RANK is {index} and WORLD_SIZE {size}, but ranks count from 0. Start with torchrun, "
            f"or set RANK to 0 to {size - 1}."
        )
    return index, size


def _meeting_folder(folder: Path, launch: str) -> Path:
    digest = hashlib.sha256(launch.encode()).hexdigest()[:12]
    return folder.with_name(f".{folder.name}.ranks-{digest}")


def _clear_dead(folder: Path, own: Path) -> None:
    """Remove what earlier starts of this run left all of whose ranks were killed."""
    for left in folder.parent.glob(glob.escape(f".{folder.name}.ranks-") + "*"):
        if left != own and all(has_died(sign) for sign in left.glob("sign.*")):
            clear(left)
