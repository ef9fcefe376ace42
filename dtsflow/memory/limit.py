"""The memory and CPUs that this process may use: a container's limits, not its host's.

Linux keeps the limits of a process in control groups, a tree where every level above
may be the tighter one. Version 2 has one tree, version 1 one for each resource. All the
functions take the root of the file system, so that a test can make up a machine.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")


def memory_limit(root: Path = _ROOT) -> int:
    """Return the bytes this process may use: all memory, or a control group's limit.

    If the system gives neither, it is the largest number that an index can have.
    """
    limits = [_physical_bytes(root)]
    for folder in _folders(root, "memory"):
        limits.append(_number(folder / "memory.max"))
        limits.append(_number(folder / "memory.limit_in_bytes"))
    return min((limit for limit in limits if limit is not None), default=sys.maxsize)


def cpu_limit(root: Path = _ROOT) -> int:
    """Return the CPUs this process may use, at least 1: its affinity, or a quota.

    A quota of one and a half CPUs counts as 2: the second one is there half the time.
    """
    limits = [_affinity()]
    for folder in _folders(root, "cpu"):
        limits.extend(_quota(folder))
    return max(1, min(limits))


def _physical_bytes(root: Path) -> int | None:
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota(folder: Path) -> Iterator[int]:
    quota, _, period = _text(folder / "cpu.max").strip().partition(" ")  # "max 100000"
    pairs = [
        (_whole(quota), _whole(period)),
        (_number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")),
    ]
    for allowed_us, period_us in pairs:
        if allowed_us and period_us:
            yield -(-allowed_us // period_us)


def _folders(root: Path, resource: str) -> Iterator[Path]:
    """Yield the folders of this process's groups, from its own up to the root."""
    mounts = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":  # version 2, at the top or, beside version 1, in a corner
            tops = [mounts, mounts / "unified"]
        elif resource in controllers.split(","):
            tops = [mounts / controllers, mounts / resource]
        else:
            continue
        # Inside a container the path may be the host's, and only the root is there.
        parts = [part for part in group.split("/") if part not in {"", ".."}]
        for top in tops:
            yield from (top.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1))


def _number(path: Path) -> int | None:
    return _whole(_text(path).strip())


def _whole(text: str) -> int | None:
    """Read a number; "max" and "-1", which mean no limit, are none."""
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
