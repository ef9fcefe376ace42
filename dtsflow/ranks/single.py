"""A run of one process."""

import os
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from dtsflow.configurable import configurable
from dtsflow.errors import RanksError
from dtsflow.ranks.launcher import launched_size
from dtsflow.ranks.rank import Rank


@configurable
class Single:
    """This process is the whole run.

    Attributes:
        simulate: `dtsflow plan` tells what a run of so many processes would read and
            take.
        per_node: How many of those are on each node.
    """

    simulate: Annotated[int, Field(ge=1, strict=True)] | None = None
    per_node: Annotated[int, Field(ge=1, strict=True)] = 8

    def start(self, environ: Mapping[str, str] | None = None) -> Rank:
        """Return rank 0 of 1; `environ` stands in for the process's environment.

        Raises:
            RanksError: A launcher started several processes; each would deliver every
                sample. Or `simulate` is set, and simulated ranks cannot run.
        """
        if self.simulate is not None:
            raise RanksError(
                f"ranks.simulate={self.simulate} is for `dtsflow plan`, which makes up that many "
                "processes. Leave it out to run."
            )
        launched = launched_size(os.environ if environ is None else environ)
        if launched is not None:
            variable, size = launched
            raise RanksError(
                f"ranks=single runs 1 process, but {variable} says that {size} were "
                "started. This version runs one process: start it without mpirun, srun "
                "or torchrun."
            )
        return Rank(index=0, size=1)

    def simulated(self) -> Rank | None:
        """The first rank of the run that `simulate` makes up; None without it."""
        if self.simulate is None:
            return None
        return Rank(index=0, size=self.simulate, local_size=min(self.simulate, self.per_node))
