"""Where batches live: the memory that the plan describes."""

from dtsflow.arena.host import Host

__all__ = ["Host"]
