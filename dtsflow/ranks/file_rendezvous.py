"""Processes that share a folder: exchanging texts, and noticing one that died.

`FileRendezvous` exchanges texts as notes, small files that are whole or not there at
all. Files of an earlier start with the same name may still lie in the folder. So each
process draws a word: rank 0's names the session, and rank 0 welcomes the others by
their words, anew whenever it finds another. A process that finds its own word knows the
session, and a text counts only if it carries the session's word.

`LivenessLock` shows that a process is alive by a lock that the system frees when the
process ends. Unlike a heartbeat it needs no thread to run in time, so a process that is
busy, compiling for example, is not taken for dead. `PeerMonitor` is a thread that ends
this process when another rank of the run has failed.
"""

import errno
import importlib
import json
import logging
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from dtsflow.errors import RanksError
from dtsflow.ranks.collective import ranks_text
from dtsflow.ranks.failure import tell


def write_note(path: Path, note: Mapping[str, Any]) -> None:
    """Write a note, in place of one that is there."""
    _draft(path, note).replace(path)


def write_first(path: Path, note: Mapping[str, Any]) -> bool:
    """Write a note unless there is one; of several processes, one gets True."""
    draft = _draft(path, note)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def read_note(path: Path) -> dict[str, Any] | None:
    """Read the note at `path`; None: there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:  # a share may also say that the file it had is stale now
        return None
    note: dict[str, Any] = json.loads(text)
    return note


def _draft(path: Path, note: Mapping[str, Any]) -> Path:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(dict(note)), encoding="utf-8")
    return draft


T = TypeVar("T")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.1


class FileRendezvous:
    """The exchange between `size` processes, of which this is number `index`.

    Each has a file for its texts, and rank 0 another one for the reply to all.

    Attributes:
        session: The name of the session; empty until the first exchange.
    """

    def __init__(self, folder: Path, index: int, size: int) -> None:
        self._folder, self._index, self._size = folder, index, size
        self._word = secrets.token_hex(8)
        self.session = self._word if index == 0 else ""
        self._round = 0
        self._say("")

    def gather(self, text: str, timeout_s: float) -> list[str]:
        """Return the texts of all processes, in order; all call it.

        Raises:
            RanksError: One did not come within `timeout_s`; rank 0 names it.
        """
        end = time.monotonic() + timeout_s
        self._round += 1
        if self._index == 0:
            return self._collect(text, end)
        if not self.session:
            self.session = self._wait(self._welcome, end)
        self._say(text)
        return self._wait(self._answer, end)

    def leave(self) -> None:
        """Take back the texts of this process."""
        self._said(self._index).unlink(missing_ok=True)

    def _collect(self, text: str, end: float) -> list[str]:
        texts, words = {0: text}, {0: self._word}

        def all_have_come() -> dict[int, str] | None:
            known = dict(words)
            for rank in range(1, self._size):
                if rank not in texts:
                    self._listen_to(rank, texts, words)
            if words != known:
                self._publish({"welcome": words})
            return texts if len(texts) == self._size else None

        def who_is_missing() -> str:
            return ranks_text(rank for rank in range(self._size) if rank not in texts)

        self._wait(all_have_come, end, who_is_missing)
        ordered = [texts[rank] for rank in range(self._size)]
        self._publish({"round": self._round, "texts": ordered})
        return ordered

    def _listen_to(self, rank: int, texts: dict[int, str], words: dict[int, str]) -> None:
        note = read_note(self._said(rank))
        if note is None:
            return
        if (note["session"], note["round"]) == (self.session, self._round):
            texts[rank] = note["text"]
        elif self._round == 1:
            words[rank] = note["word"]

    def _welcome(self) -> str | None:
        note = self._published()
        welcomed = note.get("welcome", {}).get(str(self._index)) == self._word
        return note["session"] if welcomed else None

    def _answer(self) -> list[str] | None:
        note = self._published()
        at = (note.get("session"), note.get("round"))
        return note["texts"] if at == (self.session, self._round) else None

    def _wait(
        self,
        look: Callable[[], T | None],
        end: float,
        missing: Callable[[], str] = lambda: "rank 0",
    ) -> T:
        pause = _FIRST_PAUSE_S
        while (found := look()) is None:
            if time.monotonic() > end:
                raise RanksError(
                    f"Rank {self._index} of {self._size} waited in vain for {missing()}, in "
                    f"{self._folder}. All must be started, and see the same folder."
                )
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE_S)
        return found

    def _say(self, text: str) -> None:
        note = {"word": self._word, "session": self.session, "round": self._round, "text": text}
        write_note(self._said(self._index), note)

    def _publish(self, note: dict[str, Any]) -> None:
        write_note(self._folder / "all", {"session": self.session, **note})

    def _published(self) -> dict[str, Any]:
        return read_note(self._folder / "all") or {}

    def _said(self, rank: int) -> Path:
        return self._folder / f"rank.{rank}"


try:
    fcntl: Any = importlib.import_module("fcntl")
except ImportError:  # not on Windows, where whoever started the processes must notice
    fcntl = None

log = logging.getLogger(__name__)


class LivenessLock:
    """Holds the lock of the file `path` until `leave`, or until the process ends.

    Within the process nothing else may open that file: closing it would free the lock.

    Raises:
        RanksError: Another living process holds it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("ab")
        try:
            if fcntl is not None:
                # Of the process: a child that was forked does not keep it.
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                self._file.close()
                raise RanksError(
                    f"{path} belongs to a living process: the run that the launcher's variables "
                    "name is still going on. End it first, or choose another name."
                ) from error
            log.warning("%s cannot be locked, so a rank that is killed is not noticed", path)

    def leave(self) -> None:
        """End the sign in good order; safe to call again."""
        if not self._file.closed:
            self._path.unlink(missing_ok=True)
            self._file.close()


def has_died(path: Path) -> bool:
    """Tell whether the process whose sign is at `path` ended without leaving."""
    if fcntl is None:
        return False
    try:
        with path.open("rb") as file:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return path.exists()  # it may have left since the file was opened
    except OSError:  # it is alive, or has left
        return False


EVERY_S = 0.5


class PeerMonitor:
    """A watch over the other ranks in `folder`, once started.

    Rank 0 watches all, and the others watch rank 0. All look for the note of a rank
    that fails. A rank that finds such a note or a dead rank ends at once, whatever it
    does.
    """

    def __init__(self, folder: Path, index: int, size: int) -> None:
        self._folder, self._index, self._size = folder, index, size
        self._presence = LivenessLock(self._sign(index))
        if index == 0:
            self._word.unlink(missing_ok=True)  # of an earlier start
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="dtsflow-ranks", daemon=True)

    def start(self) -> None:
        """Begin to look; all ranks are there."""
        self._thread.start()

    def fail(self, reason: str, status: int, *, rank: int | None = None) -> NoReturn:
        """End all ranks because `rank`, by default this one, failed.

        The first one reports the reason.
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
