"""The hidden folder of an unfinished pack, and the locks that keep other packs out.

One pack writes to the folder. Its locks are of open files, which the system frees when
a process ends. Rank 0 has the folder's lock. If rank 0 were killed, another pack could
take the folder over while other ranks still write into it. So these hold a lock of
their own, together. One of them may be late to take it, so they also know a word that a
pack which follows changes.
"""

import contextlib
import logging
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Self

from dtsflow.errors import PackError
from dtsflow.ranks.collective import Collective
from dtsflow.volume.format.io import refuse_existing, sync_folder

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows: two packs into one folder are then not kept apart
    fcntl = None


def lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file until it is closed; False: another process has locked it.

    Several processes can hold a `shared` lock at the same time.
    """
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


WRITERS = "writers"


@contextmanager
def co_writing(folder: Path, collective: Collective) -> Iterator[None]:
    """Let all ranks write into `folder`, whose lock rank 0 has, while a `with` lasts.

    Afterwards no rank writes any more. All ranks call it.

    Raises:
        CommonError: A rank does not see the folder, or another pack has it.
    """
    if collective.is_alone:
        yield
        return
    word = collective.tell(collective.first(partial(_invite, folder)) or "")
    with ExitStack() as held:
        collective.together(partial(_enter, folder, word, held))
        yield
    collective.tell("")  # all have let go


def turn_out(folder: Path) -> None:
    """See to it that nobody of an earlier pack writes into `folder`, or will.

    Raises:
        PackError: Somebody does.
    """
    if (folder / WRITERS).exists():
        _write_word(folder, "")


def taken(folder: Path) -> PackError:
    """Make the error for a `folder` that another process writes into."""
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


log = logging.getLogger(__name__)

_PLAN, _FINISHED, _LOCK = "plan", "finished", "lock"
_LOCKS = {_LOCK, WRITERS}


class Unfinished:
    """A folder beside the destination, whose files take their final names together.

    `plan` is a digest of everything that decides the bytes. With `resume` a folder of
    the same plan is continued; otherwise it is started again.
    """

    def __init__(self, folder: Path, finals: tuple[Path, ...], *, plan: str, resume: bool) -> None:
        self.folder = folder
        self._finals, self._plan, self._resume = finals, plan, resume
        self._lock = -1

    @property
    def is_finished(self) -> bool:
        """Tell whether all files are complete, and only have to get their names."""
        return (self.folder / _FINISHED).exists()

    def __enter__(self) -> Self:
        """Lock the folder, made new or found.

        Raises:
            PackError: Another process packs, a final name is taken, or the folder is of
                another plan.
        """
        self._lock_folder()
        try:
            self._begin()
        except BaseException:
            self._unlock()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._unlock()

    def install(self) -> None:
        """Give all files their final names, and remove the folder.

        It may be called again after a crash in the middle of it.
        """
        (self.folder / _FINISHED).touch()
        sync_folder(self.folder)
        for final in self._finals:
            part = self.folder / final.name
            if part.exists():
                refuse_existing(final)
                part.rename(final)
        sync_folder(self.folder.parent)
        self.remove()

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _begin(self) -> None:
        turn_out(self.folder)
        recorded = self.folder / _PLAN
        goes_on = self._resume and recorded.exists()
        if goes_on and recorded.read_bytes() != self._plan.encode("ascii"):
            raise PackError(
                f"{self.folder} was begun with other sources or options: it cannot be gone on "
                "with. Give the same ones, or start anew without resume."
            )
        if not (goes_on and self.is_finished):
            for final in self._finals:
                refuse_existing(final)
        if not goes_on:
            if recorded.exists():
                log.warning("%s held an unfinished pack; it is begun anew", self.folder)
            recorded.unlink(missing_ok=True)  # first: half of the files belong to no plan
            for entry in self.folder.iterdir():
                if entry.name not in _LOCKS:
                    entry.unlink()
            written = self.folder / f"{_PLAN}.new"
            written.write_text(self._plan, encoding="ascii")
            written.replace(recorded)  # a plan is whole, or is not there

    def _lock_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise PackError(f"{self.folder} cannot be written: {error.strerror}.") from error
        # The last holder may have removed the folder meanwhile: then this locks nothing
        if not (lock(self._lock) and self._is_there()):
            os.close(self._lock)
            raise taken(self.folder)

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._lock), (self.folder / _LOCK).stat())
        except OSError:
            return False

    def _unlock(self) -> None:
        os.close(self._lock)
        # Nothing but locks: no pack was begun here.
        if self.folder.exists() and {entry.name for entry in self.folder.iterdir()} <= _LOCKS:
            with contextlib.suppress(OSError):
                self.remove()
