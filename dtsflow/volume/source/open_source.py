"""What kind of source a path is."""

import os
import stat
from pathlib import Path

from dtsflow.errors import PackError
from dtsflow.volume.format import SUFFIX
from dtsflow.volume.source.image_tree import read_tree
from dtsflow.volume.source.listing import Listing
from dtsflow.volume.source.tar import COMPRESSED_SUFFIXES, TAR_SUFFIX, read_tar
from dtsflow.volume.source.volumes import read_volumes


def list_source(path: Path) -> Listing:
    """List a folder of images, a tar, or DTS volumes.

    A folder that itself holds a .dts file is a folder of volumes, any other one of
    images. Volumes are in volume order, all else is sorted by name.

    Raises:
        PackError: It is nothing of the kind, or is not there; says what it may be.
        VolumeError: It is, and cannot be read.
    """
    mode = _mode(path)
    if stat.S_ISDIR(mode):
        return read_volumes(path)[0] if holds_volumes(path) else read_tree(path)
    if stat.S_ISREG(mode) and path.suffix.lower() == SUFFIX:
        return read_volumes(path)[0]
    if stat.S_ISREG(mode) and path.name.lower().endswith((TAR_SUFFIX, *COMPRESSED_SUFFIXES)):
        return read_tar(path)
    if not mode and path.suffix == SUFFIX and any(sign in str(path) for sign in "*?["):
        return read_volumes(path)[0]
    what = "is no source of images" if mode else "is not there"
    raise PackError(
        f"{path} {what}. Name a folder of class folders, a folder of images (with --labels), a "
        f"{TAR_SUFFIX} of either or of one tar per class, a {SUFFIX} volume, a folder of "
        f"volumes, or a quoted pattern such as 'data/*{SUFFIX}'."
    )


def _mode(path: Path) -> int:
    """The file's type and mode; 0 if nothing is there."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PackError(f"{str(path)[:80]} cannot be looked up: {reason}.") from error


def holds_volumes(folder: Path) -> bool:
    """Whether a folder is one of volumes: a .dts file lies directly in it.

    Raises:
        PackError: It cannot be listed.
    """
    try:
        with os.scandir(folder) as entries:
            return any(
                entry.name.endswith(SUFFIX) and not entry.name.startswith(".") and entry.is_file()
                for entry in entries
            )
    except OSError as error:
        raise PackError(f"{folder} cannot be listed: {error.strerror}.") from error
