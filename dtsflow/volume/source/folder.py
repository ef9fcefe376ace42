"""A folder of class folders."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dtsflow.errors import PackError
from dtsflow.volume.source.base import NO_CLASS, Listing, Reject, SourceImage, whole_file

_DEEPEST = 63  # folders in each other: `dtsflow export` writes no more with their files


@dataclass(frozen=True, slots=True)
class _Folder:
    """`name` is the path below the source, empty for the source itself."""

    name: str
    files: tuple[os.DirEntry[str], ...]
    is_class: bool


def read_tree(source: Path) -> Listing:
    """List the files below `source`.

    A class is a folder below `source`, at any depth, that holds files or holds no
    folder, so that a class with no image yet keeps its label. Its name is its path
    below `source`, its label the rank of that name. Every file is listed, whatever it
    is called: only its content tells whether it is an image. Links are followed; hidden
    files and folders are not looked at.

    Raises:
        PackError: `source` is not a folder, cannot be read, links back into itself, or
            has folders in each other without end.
    """
    if not source.is_dir():
        raise PackError(f"{source} is no folder. Name the folder that holds the class folders.")
    folders = list(_walk(str(source), "", ()))
    classes = sorted(folder.name for folder in folders if folder.name and folder.is_class)
    labels = {name: label for label, name in enumerate(classes)}
    images: list[SourceImage] = []
    rejects: list[Reject] = []
    for folder in folders:
        label = labels.get(folder.name, NO_CLASS)
        for entry in folder.files:
            found = _look_up(entry, _join(folder.name, entry.name), label)
            images.append(found) if isinstance(found, SourceImage) else rejects.append(found)
    images.sort(key=lambda image: image.name)
    rejects.sort(key=lambda reject: reject.name)
    return Listing(tuple(classes), tuple(images), tuple(rejects))


def _look_up(entry: os.DirEntry[str], name: str, label: int) -> SourceImage | Reject:
    try:
        state = entry.stat()
    except OSError as error:  # a link to nowhere, or to itself
        return Reject(name, str(error.strerror))
    if not stat.S_ISREG(state.st_mode):  # opening a pipe waits for ever
        return Reject(name, "neither a file nor a folder")
    return SourceImage(name, label, whole_file(entry.path, state))


def _walk(folder: str, name: str, above: tuple[str, ...]) -> Iterator[_Folder]:
    real = os.path.realpath(folder)
    if real in above:
        raise PackError(f"{folder} is a link to a folder it lies in. Remove the link.")
    if len(above) > _DEEPEST:
        raise PackError(
            f"{folder} lies {len(above)} folders below the source, at most {_DEEPEST} are looked "
            "at. Name the folder that holds the class folders."
        )
    try:
        with os.scandir(folder) as scan:
            entries = [entry for entry in scan if not entry.name.startswith(".")]
    except OSError as error:
        raise PackError(f"{folder} cannot be listed: {error.strerror}.") from error
    inner: list[os.DirEntry[str]] = []
    files: list[os.DirEntry[str]] = []
    for entry in entries:
        (inner if _is_folder(entry) else files).append(entry)
    yield _Folder(name, tuple(files), is_class=bool(files or not inner))
    for entry in inner:
        yield from _walk(entry.path, _join(name, entry.name), (*above, real))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # links that lead to each other: reading one says why


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
