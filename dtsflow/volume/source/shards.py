"""The files that together make one source: shards, or the parts of a table."""

import glob
import os
import re
from collections.abc import Iterator
from itertools import product
from math import prod
from pathlib import Path

from dtsflow.errors import PackError
from dtsflow.volume.source.base import TEXT_SUFFIXES

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d{1,18})\.\.(\d{1,18})")
_DIGITS = re.compile(r"\d+")
_COUNTED = re.compile(r"-(\d{5})-of-(\d{5})$")  # the parts of a published table, from 0
_PATTERN_SIGNS = "*?[{"
_MOST_FILES = 1 << 20


def is_pattern(path: Path) -> bool:
    """Tell whether a path that does not exist may be a pattern or a brace list."""
    return any(sign in str(path) for sign in _PATTERN_SIGNS)


def is_folder_of(folder: Path, suffix: str) -> bool:
    """Tell whether a folder holds files with this suffix, and else only texts.

    Hidden entries do not count.

    Raises:
        PackError: It cannot be listed.
    """
    try:
        with os.scandir(folder) as entries:
            shown = [entry for entry in entries if not entry.name.startswith(".")]
            suffixes = {
                Path(entry.name).suffix.lower() if entry.is_file() else "/" for entry in shown
            }
    except OSError as error:
        raise PackError(f"{folder} cannot be listed: {error.strerror}.") from error
    return suffix in suffixes and suffixes <= {suffix, *TEXT_SUFFIXES}


def part_files(path: Path, suffix: str) -> list[Path]:
    """Find the files that a file, a folder, a pattern or a brace list names.

    Those of a folder are the ones with this suffix that lie directly in it, and must be
    parts of one set: their names differ in digits only, and where these count
    (`-00000-of-00004`), none is missing. Files come sorted, those of a brace list in
    its order: `{000..009}` and `{a,b}` stand for each of their names, and each file
    must be there.

    Raises:
        PackError: Nothing is found, one of a list or of a count is missing or comes
            twice, or a folder holds several sets.
    """
    if path.is_file():
        return [path]
    if path.is_dir():
        found = sorted(
            entry
            for entry in path.iterdir()
            if entry.suffix.lower() == suffix and not entry.name.startswith(".")
        )
        _check_one_set(path, found, suffix)
    else:
        found = list(_named(path))
    if not found:
        raise PackError(
            f"{path} names no {suffix} file: none is in this folder, or the pattern matches "
            "nothing. Check the path."
        )
    return found


def _named(path: Path) -> Iterator[Path]:
    seen: set[str] = set()
    for name in _expanded(str(path)):
        matches = sorted(glob.glob(name)) if glob.has_magic(name) else [name]  # noqa: PTH207  # Path.glob takes no absolute pattern
        for one in matches:
            if not Path(one).is_file():
                raise PackError(
                    f"{path} names {one}, which is no file or is missing. Get it, or leave it out "
                    "of the list."
                )
            if one in seen:
                raise PackError(f"{path} names {one} twice. Write the list so that it is once.")
            seen.add(one)
            yield Path(one)


def _expanded(text: str) -> Iterator[str]:
    """Expand a brace list, the last list counting up first."""
    pieces = _BRACES.split(text)  # what is outside and inside of braces, in turn
    lists = [_alternatives(piece, text) for piece in pieces[1::2]]
    total = prod(map(len, lists))
    if total > _MOST_FILES:
        raise PackError(f"{text} stands for {total} files, at most {_MOST_FILES} are taken.")
    for chosen in product(*lists):
        pieces[1::2] = chosen
        yield "".join(pieces)


def _alternatives(inside: str, text: str) -> list[str]:
    counted = _RANGE.fullmatch(inside)
    if counted is None:
        return inside.split(",")
    first, last = counted.groups()
    count = int(last) - int(first) + 1
    if not 0 < count <= _MOST_FILES:
        raise PackError(
            f"{text}: {{{inside}}} stands for {max(0, count)} files. Write the smaller number "
            f"first, and at most {_MOST_FILES} of them."
        )
    is_padded = first.startswith("0") or last.startswith("0")
    width = max(len(first), len(last)) if is_padded else 0
    return [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]


def _check_one_set(folder: Path, found: list[Path], suffix: str) -> None:
    sets = sorted({_DIGITS.sub("*", path.stem) for path in found})
    if len(sets) > 1:
        raise PackError(
            f"{folder} holds the parts of several sets: {sets[0]}{suffix}, {sets[1]}{suffix}. "
            f"Name one with a quoted pattern, such as '{folder / (sets[0] + suffix)}'."
        )
    counted = [_COUNTED.search(path.stem) for path in found]
    totals = {int(one[2]) for one in counted if one is not None}
    if len(totals) != 1 or None in counted:
        return
    have = {int(one[1]) for one in counted if one is not None}
    (total,) = totals
    first = int(total in have)  # some count from 0, some from 1
    missing = [number for number in range(first, first + total) if number not in have]
    if missing:
        raise PackError(
            f"{folder} has {len(have)} of {total} files, number {missing[0]:05d} is missing. Get "
            "it, or name those that are wanted with a quoted pattern."
        )
