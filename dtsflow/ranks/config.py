"""The kinds of ranks that need no library: one process, or what the launcher started.

`Single` is a run of one process. `Auto` looks at the environment and takes the kind
that fits it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from dtsflow.config.configurable import configurable
from dtsflow.errors import RanksError
from dtsflow.ranks.env import Env
from dtsflow.ranks.group import Group, Rank, SingleProcess
from dtsflow.ranks.launcher import is_mpi, launched_size
from dtsflow.ranks.mpi import Mpi


@configurable
class Single:
    """This process is the whole run."""

    def join(self, folder: Path | None = None, environ: Mapping[str, str] | None = None) -> Group:  # noqa: ARG002  # others meet there
        """Return the group of this process alone; `environ` replaces the process's own.

        Raises:
            RanksError: A launcher started several processes; each would deliver every
                sample. Or `simulate` is set, and simulated ranks cannot run.
        """
        launched = launched_size(os.environ if environ is None else environ)
        if launched is not None:
            variable, size = launched
            raise RanksError(
                f"ranks=single runs 1 process, but {variable} says that {size} were "
                "started. Use ranks=auto, or start it without mpirun, srun or torchrun."
            )
        return SingleProcess()


@configurable
class Auto:
    """`mpi` under mpirun or srun, `env` under torchrun, else `single`.

    Attributes:
        timeout_s: How long the ranks wait for each other when they start.
        simulate: The number of processes of a run that `dtsflow plan` describes: what
            it would read and take.
        per_node: The number of these processes on each node.
    """

    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    simulate: Annotated[int, Field(ge=1, strict=True)] | None = None
    per_node: Annotated[int, Field(ge=1, strict=True)] = 8

    def join(self, folder: Path | None, environ: Mapping[str, str] | None = None) -> Group:
        """Join the group with the kind of ranks that fits the environment.

        Raises:
            RanksError: As that kind raises it. Or `simulate` is set, and simulated
                ranks cannot run.
            MissingPartError: MPI started several processes, and mpi4py is absent.
        """
        if self.simulate is not None:
            raise RanksError(
                f"ranks.simulate={self.simulate} is for `dtsflow plan`, which makes up that many "
                "processes. Leave it out to run."
            )
        environ = os.environ if environ is None else environ
        return self.kind(environ).join(folder, environ)

    def simulated(self) -> Rank | None:
        """Return the first rank of the run that `simulate` asks for, or None."""
        if self.simulate is None:
            return None
        return Rank(index=0, size=self.simulate, local_size=min(self.simulate, self.per_node))

    def kind(self, environ: Mapping[str, str]) -> Single | Mpi | Env:
        """Return the kind of ranks that fits the environment."""
        launched = launched_size(environ)
        if launched is None:
            return Single()
        variable, _ = launched
        return Mpi(self.timeout_s) if is_mpi(variable) else Env(self.timeout_s)
