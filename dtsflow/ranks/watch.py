"""A thread that ends this process when another rank of the run has failed."""

import logging
import os
import sys
import threading
from pathlib import Path
from typing import NoReturn

from dtsflow.ranks.failure import tell
from dtsflow.ranks.notes import read_note, write_first
from dtsflow.ranks.presence import Presence, has_died

log = logging.getLogger(__name__)

EVERY_S = 0.5


class Watch:
    """Looks after the other ranks in `folder`, once started.

    Rank 0 looks after all, and the others after rank 0; all look for the word of one
    that fails. A rank that finds such, or a dead one, ends at once, whatever it does.
    """

    def __init__(self, folder: Path, index: int, size: int) -> None:
        self._folder, self._index, self._size = folder, index, size
        self._presence = Presence(self._sign(index))
        if index == 0:
            self._word.unlink(missing_ok=True)  # of an earlier start
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="dtsflow-ranks", daemon=True)

    def start(self) -> None:
        """Begin to look; all ranks are there."""
        self._thread.start()

    def fail(self, reason: str, status: int, *, rank: int | None = None) -> NoReturn:
        """End all ranks because `rank`, by default this one, failed.

        The one that is first tells the reason.
        """
        self._over.set()  # its own word is not news
        rank = self._index if rank is None else rank
        word = {"rank": rank, "reason": reason, "status": status}
        if write_first(self._word, word):
            tell(rank, self._size, reason)
        self._end(status)

    def close(self) -> None:
        """Look no more, and leave; whoever is the last clears the folder away."""
        self._over.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()
        self._presence.leave()
        if all(has_died(sign) for sign in self._folder.glob("sign.*")):
            clear(self._folder)

    def _look(self) -> None:
        others = range(1, self._size) if self._index == 0 else (0,)
        while not self._over.wait(EVERY_S):
            if (word := read_note(self._word)) is not None:
                if self._over.is_set():
                    return
                log.info("ended because rank %d failed: %s", word["rank"], word["reason"])
                self._end(word["status"])
            for rank in others:
                if has_died(self._sign(rank)) and not self._over.is_set():
                    reason = "it ended without a word; it was killed, or its node failed"
                    self.fail(reason, 1, rank=rank)

    def _end(self, status: int) -> NoReturn:
        """End the process even if its main thread is stuck in something."""
        (self._folder / f"rank.{self._index}").unlink(missing_ok=True)
        self.close()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    @property
    def _word(self) -> Path:
        return self._folder / "abort"

    def _sign(self, rank: int) -> Path:
        return self._folder / f"sign.{rank}"


def clear(folder: Path) -> None:
    """Remove a folder of files; another process may be doing the same."""
    for path in folder.glob("*"):
        path.unlink(missing_ok=True)
    for path in folder.glob(".*"):
        path.unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError:
        log.debug("%s is not empty, or gone", folder)
