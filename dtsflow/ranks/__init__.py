"""Which of the processes of a run this one is, and how they reach each other."""

from dtsflow.ranks.config import Auto, Single
from dtsflow.ranks.env import Env
from dtsflow.ranks.group import Group, Rank
from dtsflow.ranks.mpi import Mpi

__all__ = ["Auto", "Env", "Group", "Mpi", "Rank", "Single"]
