"""What a launcher left in the environment about the processes it started."""

from collections.abc import Mapping
from typing import Final

from dtsflow.errors import RanksError

OPEN_MPI_SIZE: Final = "OMPI_COMM_WORLD_SIZE"

# In this order: an mpirun inside a Slurm step has both.
_MPI_SIZES: Final = (OPEN_MPI_SIZE, "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
_ENV_SIZE: Final = "WORLD_SIZE"


def launched_size(environ: Mapping[str, str]) -> tuple[str, int] | None:
    """Find the variable that says this process is one of several, and its number.

    mpirun, srun and their kind are asked first, then torchrun, whose WORLD_SIZE counts
    only beside a RANK. But what torchrun starts also has the variables of an srun that
    started torchrun, so where it left its own name it alone is asked. None means that
    nobody started more than one process.

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
    """The whole number in a launcher's variable, which is there.

    Raises:
        RanksError: It is none, or less than `least`.
    """
    text = environ[name]
    if not (text.isascii() and text.isdecimal() and int(text) >= least):
        raise RanksError(
            f"{name} is {text!r}, and a launcher sets it to a whole number of at least {least}. "
            f"Start through the launcher again, or unset {name}."
        )
    return int(text)
