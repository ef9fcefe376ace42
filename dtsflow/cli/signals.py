"""The signals that end a run: after the batch in hand, and with its state written."""

import signal
import socket
import threading
import time
from contextlib import ExitStack
from types import FrameType
from typing import Self

from dtsflow.course import Stopping

# SIGUSR1: what Slurm can send ahead of the end (`--signal=USR1@60`); Windows has none.
_NAMES = ("SIGINT", "SIGTERM", "SIGUSR1")
_SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
_TWICE_S = 1.0  # a launcher may pass on the Ctrl-C that the terminal sent already


class Signals:
    """Stops a run on Ctrl-C, SIGTERM or SIGUSR1, while a `with` lasts.

    A second Ctrl-C is a KeyboardInterrupt, as without this. Signals that the process
    ignores stay ignored; outside the main thread nothing changes. The handlers of
    before are back afterwards.

    Attributes:
        came: The first signal that came.
    """

    def __init__(self, stopping: Stopping) -> None:
        self.came: signal.Signals | None = None
        self._stopping = stopping
        self._handled_at: float | None = None
        self._held = ExitStack()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            with ExitStack() as held:
                self._listen(held)
                for number in _SIGNALS:
                    self._handle(number, held)
                self._held = held.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._held.close()

    def _listen(self, held: ExitStack) -> None:
        """Start the thread that stops the run; it learns of signals from Python's core.

        A handler runs in the main thread, in the midst of whatever that does, with its
        locks held: it could not stop anything. Nor need it run at all while the main
        thread waits, if the signal came just before it began to.
        """
        told, tell = socket.socketpair()
        held.callback(told.close)
        thread = threading.Thread(
            target=self._stop_when_told, args=(told,), name="dtsflow-signals", daemon=True
        )
        thread.start()
        held.callback(thread.join)
        held.callback(tell.close)  # which ends the thread
        tell.settimeout(0)  # what is full already tells enough
        before = signal.set_wakeup_fd(tell.fileno(), warn_on_full_buffer=False)
        held.callback(signal.set_wakeup_fd, before)

    def _stop_when_told(self, told: socket.socket) -> None:
        while numbers := told.recv(64):
            for number in numbers:
                if number in _SIGNALS:
                    self.came = self.came or signal.Signals(number)
                    self._stopping.ask()

    def _handle(self, number: signal.Signals, held: ExitStack) -> None:
        before = signal.getsignal(number)
        if before not in (signal.SIG_IGN, None):  # None: one that could not be put back
            signal.signal(number, self._came)
            held.callback(signal.signal, number, before)

    def _came(self, number: int, _frame: FrameType | None) -> None:
        """Let no batch be handed out any more; the thread may be a little later."""
        self.came = self.came or signal.Signals(number)
        self._stopping.wish()
        now = time.monotonic()
        if self._handled_at is None:
            self._handled_at = now
        elif number == signal.SIGINT and now - self._handled_at > _TWICE_S:
            raise KeyboardInterrupt
