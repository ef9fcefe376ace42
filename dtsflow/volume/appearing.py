"""A new folder that appears under its name only when all of it is written."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dtsflow.errors import PackError


def refuse_existing_folder(folder: Path) -> None:
    """Raise PackError if something lies where a folder is to appear."""
    if os.path.lexists(folder):
        raise PackError(f"{folder} exists already. Remove it, or choose another folder.")


@contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """A new folder that takes its name if the block ends well, and is gone if not.

    The block fills the hidden folder that it is given. Missing folders above are made.
    Nothing is forced to the disk: after a power cut, write it again.

    Raises:
        PackError: `folder` exists, or the system refused to write.
    """
    refuse_existing_folder(folder)
    unfinished = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.part")
    try:
        unfinished.mkdir(parents=True)
        yield unfinished
        unfinished.rename(folder)
    except OSError as error:
        raise PackError(
            f"{folder} could not be written: {error}. Nothing was left behind; check the disk "
            "and its free space, then try again."
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
