"""Locks of open files, which the system frees when a process ends."""

from types import ModuleType

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows: two packs into one folder are then not kept apart
    fcntl = None


def lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file until it is closed; False: another process has locked it.

    Locks that are `shared` get along with each other.
    """
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
