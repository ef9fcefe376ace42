"""The processes of a run: which of them this one is, and how they exchange texts."""

from dtsflow.ranks.config import Auto, Single
from dtsflow.ranks.env import Env
from dtsflow.ranks.group import Group, Rank
from dtsflow.ranks.mpi import Mpi

__all__ = ["Auto", "Env", "Group", "Mpi", "Rank", "Single"]
