"""Which folders of an archive are its classes."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClassFolders:
    """`root` is the folder around everything, empty if there is none.

    `names` are the class folders below it, sorted, without it.
    """

    root: str
    names: tuple[str, ...]

    def below_root(self, name: str) -> str:
        """A path of the archive without the root."""
        return name[len(self.root) + 1 :] if self.root else name


def class_folders(holders: AbstractSet[str], folders: Iterable[str]) -> ClassFolders:
    """Tell classes from the folders around them.

    `holders` are the folders that hold files, empty for the top of the archive;
    `folders` all that the archive names. A class is a folder that holds files or holds
    no folder. The chain of folders that all classes share is the root, and left out; if
    all files lie in one folder, that folder is the class.
    """
    everything = set[str]()
    for folder in {*holders, *folders}:
        everything.update(_with_parents(folder))
    parents = {folder.rpartition("/")[0] for folder in everything}
    candidates = (holders | (everything - parents)) - {""}
    root = _root(holders, candidates)
    named = ClassFolders(root, ())
    names = sorted(named.below_root(folder) for folder in candidates if folder != root)
    return ClassFolders(root, tuple(names))


def _root(holders: AbstractSet[str], candidates: AbstractSet[str]) -> str:
    if not candidates or "" in holders:
        return ""
    if len(candidates) == 1:
        return next(iter(candidates)).rpartition("/")[0]
    parted = [folder.split("/") for folder in candidates]
    # What the first and the last in order share, all between them share too.
    shared = []
    for one, other in zip(min(parted), max(parted), strict=False):
        if one != other:
            break
        shared.append(one)
    return "/".join(shared)


def _with_parents(folder: str) -> Iterable[str]:
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]
