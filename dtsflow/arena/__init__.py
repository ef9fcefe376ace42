"""Where batches live: the memory that the plan describes."""

from dtsflow.arena.device import Device
from dtsflow.arena.host import Host

__all__ = ["Device", "Host"]
