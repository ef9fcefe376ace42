"""A folder of class folders: which images there are and what their labels are."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dtsflow.errors import PackError

NO_CLASS = -1


@dataclass(frozen=True, slots=True)
class SourceImage:
    """One file that may be an image; `name` is its path below the source folder.

    An image right in the source folder has the label `NO_CLASS`.
    """

    path: Path
    name: str
    label: int


@dataclass(frozen=True, slots=True)
class ImageTree:
    """All images below a folder, sorted by name; a label is an index of `classes`."""

    classes: tuple[str, ...]
    images: tuple[SourceImage, ...]


@dataclass(frozen=True, slots=True)
class _Folder:
    path: Path
    images: tuple[Path, ...]
    is_class: bool


def read_tree(source: Path) -> ImageTree:
    """List the files below `source`.

    A class is a folder below `source`, at any depth, that holds files or holds no
    folder, so that a class with no image yet keeps its label. Its name is its path
    below `source`, its label the rank of that name. Every file is listed, whatever it
    is called: only its content tells whether it is an image. Links are followed; hidden
    files and folders are not looked at.

    Raises:
        PackError: `source` is no folder, cannot be read, or links back into itself.
    """
    if not source.is_dir():
        raise PackError(f"{source} is no folder. Name the folder that holds the class folders.")
    top, *inner = _walk(source, ())
    named = {_name(folder.path, source): folder for folder in inner if folder.is_class}
    classes = sorted(named)
    images = [SourceImage(path, path.name, NO_CLASS) for path in top.images]
    for label, name in enumerate(classes):
        images += [SourceImage(path, f"{name}/{path.name}", label) for path in named[name].images]
    images.sort(key=lambda image: image.name)
    return ImageTree(tuple(classes), tuple(images))


def _name(path: Path, source: Path) -> str:
    return path.relative_to(source).as_posix()


def _walk(folder: Path, above: tuple[Path, ...]) -> Iterator[_Folder]:
    real = folder.resolve()
    if real in above:
        raise PackError(f"{folder} is a link to a folder it lies in. Remove the link.")
    try:
        entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    except OSError as error:
        raise PackError(f"{folder} cannot be listed: {error.strerror}.") from error
    inner = {entry for entry in entries if entry.is_dir()}
    images = [entry for entry in entries if entry not in inner]
    yield _Folder(folder, tuple(images), is_class=bool(images or not inner))
    for entry in inner:
        yield from _walk(entry, (*above, real))
