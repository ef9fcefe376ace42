"""`dtsflow`, one rank of which fails in a way: `python failing.py WAY OVERRIDE…`."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

from dtsflow.arena.batch import Batch
from dtsflow.cli import entry
from dtsflow.consumer.digest import Digesting
from dtsflow.station.double_buffer import DoubleBuffer

RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "RANK")  # as a launcher tells it
FAILING = 1  # the rank
STEP = 4  # the batch, of the second epoch, with which it does
BEGAN = Path("began")  # a file with the time at which it did


def fail(way: str) -> None:
    """Fail now, or let all workers get stuck from now on."""
    BEGAN.write_text(repr(time.time()), encoding="ascii")
    if way == "raise":
        raise ZeroDivisionError("the loss is not a number")
    if way == "stall":
        DoubleBuffer.claim = stuck  # type: ignore[method-assign, assignment]  # in this process only
        return
    os.kill(os.getpid(), getattr(signal, way))


def stuck(_double_buffer: DoubleBuffer) -> None:
    """Never return, as a worker whose decoder hangs."""
    threading.Event().wait()


def main(way: str, *overrides: str) -> int:
    """Run dtsflow, to fail in the midst of it."""
    take = Digesting.take
    rank = next(os.environ[name] for name in RANKS if name in os.environ)

    def taking(self: Digesting, batch: Batch) -> None:
        take(self, batch)
        if (batch.epoch, batch.step) == (1, STEP) and rank == str(FAILING):
            fail(way)

    Digesting.take = taking  # type: ignore[method-assign]  # in this process only
    sys.argv[1:] = overrides
    return entry.main()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
