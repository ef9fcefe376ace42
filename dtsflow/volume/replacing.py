"""A new file that takes its name only when all of it is on the disk."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from dtsflow.errors import PackError


def refuse_existing(destination: Path) -> None:
    """Raise PackError if something lies where a volume is to be written."""
    if os.path.lexists(destination):
        raise PackError(
            f"{destination} exists already, and a volume is never overwritten. Remove it, or "
            "choose another name or folder."
        )


def check_space(folder: Path, wanted: int, *, what: str = "the volume") -> None:
    """Raise PackError if `folder` is missing or has less than `wanted` bytes left.

    `what` says in the message what is to be written there.
    """
    if not folder.is_dir():
        raise PackError(f"{folder} is no folder. Make it first, or choose another.")
    free = shutil.disk_usage(folder).free
    if free < wanted:
        raise PackError(
            f"{folder} has {free} bytes free, {what} takes {wanted}. Free some, or write "
            "to another disk."
        )


@contextmanager
def replacing(destination: Path) -> Iterator[BinaryIO]:
    """A new file that takes its name if the block ends well, and is gone if not.

    Its bytes are on the disk before it has the name, and the name before this returns.

    Raises:
        PackError: The destination exists, or writing failed.
    """
    # Hidden, in the same folder: a scan never sees it and the rename stays on one disk.
    temporary = destination.with_name(f".{destination.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        refuse_existing(destination)
        temporary.rename(destination)
    except OSError as error:
        raise PackError(
            f"{destination} could not be written: {error}. Nothing was left behind; check "
            "the disk and its free space, then try again."
        ) from error
    finally:
        with suppress(OSError):  # the name itself may be what the system refuses
            temporary.unlink(missing_ok=True)
    sync_folder(destination.parent)


def sync_folder(folder: Path) -> None:
    """Put the names of a folder's files on the disk."""
    if os.name != "posix":
        return  # elsewhere a folder cannot be opened, and a rename needs no such help
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
