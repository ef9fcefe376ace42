"""Which of the processes of a run this one is, and how they reach each other."""

from dtsflow.ranks.auto import Auto
from dtsflow.ranks.env import Env
from dtsflow.ranks.mpi import Mpi
from dtsflow.ranks.single import Single

__all__ = ["Auto", "Env", "Mpi", "Single"]
