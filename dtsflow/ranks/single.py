"""A run of one process."""

import os
from collections.abc import Mapping

from dtsflow.configurable import configurable
from dtsflow.errors import RanksError
from dtsflow.ranks.launcher import launched_size
from dtsflow.ranks.rank import Rank


@configurable
class Single:
    """This process is the whole run."""

    def start(self, environ: Mapping[str, str] | None = None) -> Rank:
        """Return rank 0 of 1; `environ` stands in for the process's environment.

        Raises:
            RanksError: A launcher started several processes; each would deliver every
                sample.
        """
        launched = launched_size(os.environ if environ is None else environ)
        if launched is not None:
            variable, size = launched
            raise RanksError(
                f"ranks=single runs 1 process, but {variable} says that {size} were "
                "started. This version runs one process: start it without mpirun, srun "
                "or torchrun."
            )
        return Rank(index=0, size=1)
