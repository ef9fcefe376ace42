"""The kind of ranks that the launcher started."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from dtsflow.configurable import configurable
from dtsflow.ranks.env import Env
from dtsflow.ranks.group import Group
from dtsflow.ranks.launcher import is_mpi, launched_size
from dtsflow.ranks.mpi import Mpi
from dtsflow.ranks.single import Single


@configurable
class Auto:
    """`mpi` under mpirun or srun, `env` under torchrun, else `single`.

    Attributes:
        timeout_s: How long the ranks wait for each other when they start.
    """

    timeout_s: Annotated[float, Field(gt=0)] = 600.0

    def join(self, folder: Path | None, environ: Mapping[str, str] | None = None) -> Group:
        """Join the group as the kind that the environment speaks of would.

        Raises:
            RanksError: As of that kind.
            MissingPartError: MPI started several processes, and mpi4py is absent.
        """
        environ = os.environ if environ is None else environ
        return self.kind(environ).join(folder, environ)

    def kind(self, environ: Mapping[str, str]) -> Single | Mpi | Env:
        """Which kind that is."""
        launched = launched_size(environ)
        if launched is None:
            return Single()
        variable, _ = launched
        return Mpi(self.timeout_s) if is_mpi(variable) else Env(self.timeout_s)
