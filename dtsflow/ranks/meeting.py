"""How processes that share a folder exchange texts.

Files of an earlier start with the same name may still lie in the folder. So each
process draws a word: rank 0's names the session, and it welcomes the others by theirs,
anew whenever it finds another. Who finds his word knows the session; and a text counts
only if it carries that.
"""

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from dtsflow.errors import RanksError
from dtsflow.ranks.agreement import ranks_text
from dtsflow.ranks.notes import read_note, write_note

T = TypeVar("T")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.1


class Meeting:
    """The exchange between `size` processes, of which this is number `index`.

    Each has a file for what it says, and rank 0 another for the answer to all.

    Attributes:
        session: What the session is called; empty until the first exchange.
    """

    def __init__(self, folder: Path, index: int, size: int) -> None:
        self._folder, self._index, self._size = folder, index, size
        self._word = secrets.token_hex(8)
        self.session = self._word if index == 0 else ""
        self._round = 0
        self._say("")

    def gather(self, text: str, timeout_s: float) -> list[str]:
        """The texts of all processes, in order; all call it.

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
        """Take back what this process said."""
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
