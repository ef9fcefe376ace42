"""The other processes of a group on this node, to end them without the launcher."""

import contextlib
import os
import signal
from collections.abc import Iterable


def told() -> str:
    """What one process tells of itself, for the others to find it."""
    try:
        space = os.readlink("/proc/self/ns/pid")  # noqa: PTH115  # no path: "pid:[…]"
    except OSError:
        space = ""  # not Linux
    return f"{os.getpid()} {space}"


class Neighbours:
    """Processes, held to the end, so that no later one of their number is meant.

    None is where the system cannot hold them, or numbers are not the same for all.

    Args:
        texts: What they have `told`.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._held: list[int] = []
        own, _, space = told().partition(" ")
        if not space or not hasattr(os, "pidfd_open"):
            return
        for text in texts:
            number, _, other = text.partition(" ")
            if other == space and number != own:
                with contextlib.suppress(OSError):  # it has ended, or there are too many files
                    self._held.append(os.pidfd_open(int(number)))

    def kill(self) -> None:
        """End them at once."""
        for process in self._held:
            with contextlib.suppress(OSError):  # it has ended
                signal.pidfd_send_signal(process, signal.SIGKILL)
