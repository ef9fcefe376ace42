"""Ranks that MPI started, under mpirun or srun; the only import of mpi4py.

`LocalPeers` are the other processes of a group on this node. It can end them without
the launcher.
"""

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, NoReturn

import numpy as np
from pydantic import Field

from dtsflow.config.configurable import configurable
from dtsflow.errors import MissingPartError, RanksError
from dtsflow.ranks.failure import tell
from dtsflow.ranks.group import Group, Rank, SingleProcess
from dtsflow.ranks.launcher import OPEN_MPI_SIZE, Whereabouts, launched_size, place

if TYPE_CHECKING:
    from mpi4py import MPI


def process_identity() -> str:
    """Describe this process, for the others to find it."""
    try:
        space = os.readlink("/proc/self/ns/pid")  # noqa: PTH115  # no path: "pid:[…]"
    except OSError:
        space = ""  # not Linux
    return f"{os.getpid()} {space}"


class LocalPeers:
    """Processes of this node, held so that no later process can take their number.

    There are none if the system cannot hold them, or if numbers are not the same for
    all.

    Args:
        texts: The messages that they have sent.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._held: list[int] = []
        own, _, space = process_identity().partition(" ")
        if not space or not hasattr(os, "pidfd_open"):
            return
        for text in texts:
            number, _, other = text.partition(" ")
            if other == space and number != own:
                with contextlib.suppress(OSError):  # it has ended, or there are too many files
                    self._held.append(os.pidfd_open(int(number)))

    def kill(self) -> None:
        """End them at once."""
        for process in self._held:
            with contextlib.suppress(OSError):  # it has ended
                signal.pidfd_send_signal(process, signal.SIGKILL)


OF_MPICH = re.compile(r"MPICH|MVAPICH|Intel\(R\) MPI", re.IGNORECASE)

_LONGEST_PAUSE_S = 0.01
_REMEDY = "Start with the mpiexec of that MPI, or install mpi4py for the launcher's."


@configurable
class Mpi:
    """The processes of MPI's world.

    Attributes:
        timeout_s: How long the ranks wait for each other when they start.
    """

    timeout_s: Annotated[float, Field(gt=0)] = 600.0

    def join(self, folder: Path | None, environ: Mapping[str, str] | None = None) -> Group:
        """Join MPI's world, of which all processes call this; `folder` is the run's.

        Raises:
            MissingPartError: mpi4py, or the MPI library that it needs, is absent.
            RanksError: The launcher belongs to another MPI, or the run has no folder.
        """
        environ = os.environ if environ is None else environ
        mpi = _started(environ)
        world = mpi.COMM_WORLD
        check_world(world.size, _library(mpi), environ)
        if world.size == 1:
            return SingleProcess()
        if folder is None:
            raise RanksError(f"{world.size} ranks need one run folder: give the run a name.")
        near = world.Split_type(mpi.COMM_TYPE_SHARED)
        node = str(near.bcast(world.rank))
        near.Free()
        # Apart from what the user's own code sends; left to MPI to free at its end, for
        # a rank that failed would not come to free it together.
        return MpiGroup(world.Dup(), Whereabouts.here(node), self.timeout_s)


def _started(environ: Mapping[str, str]) -> ModuleType:
    """Return mpi4py's MPI, at work, unless the launcher is of another."""
    try:
        import mpi4py  # noqa: PLC0415

        if "mpi4py.MPI" not in sys.modules:  # else somebody has started it, or will
            mpi4py.rc(initialize=False, finalize=True)
        from mpi4py import MPI  # noqa: PLC0415
    except (ImportError, RuntimeError) as error:  # it raises the latter without a library
        raise MissingPartError(
            f"ranks=mpi needs mpi4py and an MPI library: {error}. Install dtsflow[mpi] where "
            "an MPI is, or dtsflow[mpi-wheel], which brings MPICH."
        ) from error
    check_launcher(_library(MPI), environ)
    if not MPI.Is_initialized():
        MPI.Init_thread()
    return MPI


def _library(mpi: ModuleType) -> str:
    """Name the MPI library; it may be asked before it is started."""
    version: str = mpi.Get_library_version()
    return " ".join(version.partition("\n")[0].split())


def check_launcher(library: str, environ: Mapping[str, str]) -> None:
    """Refuse what would end the process in the midst of MPI's start.

    MPICH and the libraries made from it end like that under Open MPI's mpirun, with a
    message that does not help.

    Raises:
        RanksError: Open MPI's mpirun started several processes, and the library is
            MPICH's.
    """
    launched = launched_size(environ)
    if launched is None or launched[0] != OPEN_MPI_SIZE or not OF_MPICH.search(library):
        return
    variable, started = launched
    raise RanksError(
        f"{variable} says that {started} processes were started by Open MPI, but mpi4py uses "
        f"{library}. {_REMEDY}"
    )


def check_world(size: int, library: str, environ: Mapping[str, str] | None = None) -> None:
    """Refuse a world of one process where the launcher started several.

    Raises:
        RanksError: So it is: each process would deliver every sample.
    """
    launched = launched_size(os.environ if environ is None else environ)
    if size > 1 or launched is None:
        return
    variable, started = launched
    raise RanksError(
        f"{variable} says that {started} processes were started, but MPI's communicator has 1: "
        f"the launcher is not of the MPI that mpi4py uses, which is {library}. {_REMEDY}"
    )


class MpiGroup:
    """A communicator over all processes; satisfies Group.

    Args:
        world: The communicator, which nothing else uses.
        told: Where this process runs.
        timeout_s: How long it waits for the others.
    """

    def __init__(self, world: "MPI.Intracomm", told: Whereabouts, timeout_s: float) -> None:
        self._world, self._timeout_s = world, timeout_s
        self._rank = Rank(world.rank, world.size)
        everywhere = [Whereabouts.from_text(text) for text in self.gather_texts(told.to_text())]
        self._rank, self._peers = place(world.rank, everywhere)
        processes = self.gather_texts(process_identity())
        self._local_peers = LocalPeers(processes[peer] for peer in self._peers)
        if self._rank.local_index == 0:
            _forget_name()

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
            RanksError: A rank did not come in time.
        """
        end = time.monotonic() + (timeout_s or self._timeout_s)
        own = np.frombuffer(text.encode() + b"\0", np.uint8)
        size = np.array([len(own)], np.int64)
        sizes = np.zeros(self._rank.size, np.int64)
        self._finish(self._world.Iallgather(size, sizes), end)
        starts = np.cumsum(sizes) - sizes
        every = np.zeros(int(sizes.sum()), np.uint8)
        where = (every, (sizes.tolist(), starts.tolist()))
        self._finish(self._world.Iallgatherv(own, where), end)
        return [bytes(part[:-1]).decode() for part in np.split(every, starts[1:])]

    def _finish(self, request: "MPI.Request", end: float) -> None:
        """Wait without keeping a core busy, as MPI's own waiting does."""
        pause = 0.0001
        while not request.Test():
            if time.monotonic() > end:
                raise RanksError(
                    f"Rank {self._rank.index} of {self._rank.size} waited for the others in vain. "
                    "The logs of the other ranks say what they were doing."
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def abort(self, reason: str, status: int = 1) -> NoReturn:
        """End all ranks through MPI; this one reports `reason`.

        The ranks of this node are ended here. MPICH's launcher can miss that a rank
        called Abort while it is busy with the output of another, and wait for the
        others for ever.
        """
        tell(self._rank.index, self._rank.size, reason)
        self._local_peers.kill()
        self._world.Abort(status)
        raise AssertionError  # it does not return

    def close(self) -> None:
        """Do nothing: MPI ends with the process."""


def _forget_name() -> None:
    """Remove the name of MPICH's own shared memory, which all ranks of a node have now.

    MPICH 5 keeps it in /dev/shm until the end, and leaves it there when a rank is
    killed; the memory itself stays as long as somebody has it.
    """
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for path in {line.split()[-1] for line in lines}:
        if path.startswith("/dev/shm/mpich_shm_"):
            Path(path).unlink(missing_ok=True)
