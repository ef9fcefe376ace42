"""A run of one process."""

import os
from collections.abc import Mapping
from pathlib import Path

from dtsflow.configurable import configurable
from dtsflow.errors import RanksError
from dtsflow.ranks.alone import Alone
from dtsflow.ranks.group import Group
from dtsflow.ranks.launcher import launched_size


@configurable
class Single:
    """This process is the whole run."""

    def join(self, folder: Path | None = None, environ: Mapping[str, str] | None = None) -> Group:  # noqa: ARG002  # others meet there
        """The group of this process alone; `environ` stands in for the process's own.

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
        return Alone()
