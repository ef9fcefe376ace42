"""Several ranks that write into the hidden folder of one pack.

Rank 0 has the folder's lock. Were it killed, another pack could take the folder over
while other ranks still write into it. So these hold a lock of their own, together; and
because one may be late to take it, they know a word that a pack which follows changes.
"""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from dtsflow.errors import PackError
from dtsflow.ranks.crew import Crew
from dtsflow.volume.packing.file_lock import lock

WRITERS = "writers"


@contextmanager
def co_writing(folder: Path, crew: Crew) -> Iterator[None]:
    """Let all ranks write into `folder`, whose lock rank 0 has, while a `with` lasts.

    After it none does. All ranks call it.

    Raises:
        CommonError: A rank does not see the folder, or another pack has it.
    """
    if crew.is_alone:
        yield
        return
    word = crew.tell(crew.first(partial(_invite, folder)) or "")
    with ExitStack() as held:
        crew.together(partial(_enter, folder, word, held))
        yield
    crew.tell("")  # all have let go


def turn_out(folder: Path) -> None:
    """See to it that nobody of an earlier pack writes into `folder`, or will.

    Raises:
        PackError: Somebody does.
    """
    if (folder / WRITERS).exists():
        _write_word(folder, "")


def taken(folder: Path) -> PackError:
    """The error that another process writes into `folder`."""
    return PackError(
        f"{folder} is being written by another process. Wait for it, or choose "
        "another name or folder."
    )


def _invite(folder: Path) -> str:
    word = secrets.token_hex(8)
    _write_word(folder, word)
    return word


def _write_word(folder: Path, word: str) -> None:
    with (folder / WRITERS).open("a+b") as file:
        if not lock(file.fileno()):
            raise taken(folder)
        file.truncate(0)
        file.write(word.encode("ascii"))


def _enter(folder: Path, word: str, held: ExitStack) -> None:
    try:
        file = held.enter_context((folder / WRITERS).open("rb"))
    except OSError as error:
        raise PackError(
            f"{folder}, which rank 0 has made, cannot be read here: {error.strerror}. All ranks "
            "need the destination under the same path."
        ) from error
    if not lock(file.fileno(), shared=True) or file.read() != word.encode("ascii"):
        raise taken(folder)
