"""Which of the processes of a run this one is."""

from dtsflow.ranks.single import Single

__all__ = ["Single"]
