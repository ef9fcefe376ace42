"""The environment of a launched process, and the machines that its group runs on.

The first functions read what a launcher left about the processes it started. `place`
finds out from the messages of all processes who shares a node, and which CPUs.
"""

import json
import os
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from dtsflow.errors import RanksError
from dtsflow.memory.limit import cpu_limit
from dtsflow.ranks.group import Rank

OPEN_MPI_SIZE: Final = "OMPI_COMM_WORLD_SIZE"

# In this order: an mpirun inside a Slurm step has both.
_MPI_SIZES: Final = (OPEN_MPI_SIZE, "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
_ENV_SIZE: Final = "WORLD_SIZE"


def launched_size(environ: Mapping[str, str]) -> tuple[str, int] | None:
    """Find the variable that says this process is one of several, and its number.

    The variables of mpirun, srun and their kind are read first, then those of torchrun,
    whose WORLD_SIZE counts only beside a RANK. But processes of torchrun also have the
    variables of an srun that started torchrun, so if torchrun left its own name, only
    its variables count. None means that only one process was started.

    Raises:
        RanksError: A variable does not hold a positive whole number.
    """
    names = [name for name in _MPI_SIZES if name in environ]
    if "RANK" in environ and _ENV_SIZE in environ:
        names = [_ENV_SIZE] if "TORCHELASTIC_RUN_ID" in environ else [*names, _ENV_SIZE]
    for name in names:
        size = number(environ, name, least=1)
        if size > 1:
            return name, size
    return None


def is_mpi(variable: str) -> bool:
    """Tell whether a variable of `launched_size` is set by those who start MPI."""
    return variable in _MPI_SIZES


def number(environ: Mapping[str, str], name: str, *, least: int) -> int:
    """Return the whole number in a launcher's variable, which is there.

    Raises:
        RanksError: It is not a whole number, or less than `least`.
    """
    text = environ[name]
    if not (text.isascii() and text.isdecimal() and int(text) >= least):
        raise RanksError(
            f"{name} is {text!r}, and a launcher sets it to a whole number of at least {least}. "
            f"Start through the launcher again, or unset {name}."
        )
    return int(text)


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """The message of one process to the others on where it runs.

    Attributes:
        node: Equal for two processes if and only if they can share memory.
        local_rank: Its number on the node, if the launcher gives one.
        cpus: The CPUs it may run on.
        cpu_limit: How many of them it may use at a time.
    """

    node: str
    local_rank: int | None
    cpus: tuple[int, ...]
    cpu_limit: int

    @classmethod
    def here(cls, node: str = "", local_rank: int | None = None) -> "Whereabouts":
        """Describe this process; `node` tells nodes apart that share a machine."""
        affinity = getattr(os, "sched_getaffinity", None)
        cpus = sorted(affinity(0)) if affinity is not None else range(os.cpu_count() or 1)
        return cls(f"{_machine()} {node}", local_rank, tuple(cpus), cpu_limit())

    def to_text(self) -> str:
        """Return it as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> "Whereabouts":
        """Read what `to_text` wrote."""
        told = json.loads(text)
        return cls(**{**told, "cpus": tuple(told["cpus"])})


def place(index: int, everywhere: Sequence[Whereabouts]) -> tuple[Rank, tuple[int, ...]]:
    """Return rank `index` of a group, and its node's ranks by local index.

    Nodes are numbered in the order of their first ranks; on a node the launcher's
    numbers count if all have one, else the order of the ranks.
    """
    own = everywhere[index]
    nodes = list(dict.fromkeys(one.node for one in everywhere))
    peers = [rank for rank, one in enumerate(everywhere) if one.node == own.node]
    numbers = {rank: everywhere[rank].local_rank for rank in peers}
    if set(numbers.values()) == set(range(len(peers))):
        peers.sort(key=lambda rank: numbers[rank] or 0)
    rank = Rank(
        index=index,
        size=len(everywhere),
        node=nodes.index(own.node),
        local_index=peers.index(index),
        local_size=len(peers),
        cpu_share=_cpu_share(own, [everywhere[peer] for peer in peers]),
    )
    return rank, tuple(peers)


def _cpu_share(own: Whereabouts, node: Sequence[Whereabouts]) -> int:
    """Return the CPUs for one process: of a CPU that k may use, each counts 1/k."""
    users = Counter(cpu for one in node for cpu in one.cpus)
    parts = sum((Fraction(1, users[cpu]) for cpu in own.cpus), Fraction(0))
    # A quota is a part of each CPU.
    return max(1, int(parts * min(own.cpu_limit, len(own.cpus)) / max(1, len(own.cpus))))


def _machine() -> str:
    """Identify this machine since its start, and the network that this process sees."""
    told = [socket.gethostname()]
    try:
        told.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        told.append(os.readlink("/proc/self/ns/net"))  # noqa: PTH115  # no path: "net:[…]"
    except OSError:
        pass  # not Linux
    return " ".join(told)
