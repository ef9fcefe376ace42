"""What a launcher left in the environment about the processes it started."""

from collections.abc import Mapping
from typing import Final

from dtsflow.errors import RanksError

_SIZE_VARIABLES: Final = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")


def launched_size(environ: Mapping[str, str]) -> tuple[str, int] | None:
    """Find the variable that says this process is one of several, and its number.

    mpirun, srun and their kind are asked first, then torchrun, whose WORLD_SIZE counts
    only beside a RANK. None means that nobody started more than one process.

    Raises:
        RanksError: A variable does not hold a positive whole number.
    """
    names = [name for name in _SIZE_VARIABLES if name in environ]
    if "RANK" in environ and "WORLD_SIZE" in environ:
        names.append("WORLD_SIZE")
    for name in names:
        size = _positive(name, environ[name])
        if size > 1:
            return name, size
    return None


def _positive(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise RanksError(
            f"{name} is {text!r}, and a launcher sets it to a positive number of "
            f"processes. Start through the launcher again, or unset {name}."
        )
    return int(text)
