"""What this process holds in memory, as the operating system counts it."""

import contextlib
import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def resident_bytes() -> int:
    """Bytes resident now; the peak so far where the system does not tell."""
    return _status("VmRSS") or peak_bytes()


def reset_peak() -> None:
    """Let `peak_bytes` count from now on, where the system can do that (Linux)."""
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5")  # proc(5): 5 resets the peak resident set size


def peak_bytes() -> int:
    """The most bytes that were resident since `reset_peak`, or ever."""
    if found := _status("VmHWM"):
        return found
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage: bytes on macOS, KiB on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(key: str) -> int:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return 0
    found = (line.split()[1] for line in lines if line.startswith(f"{key}:"))
    return int(next(found, "0")) * 1024
