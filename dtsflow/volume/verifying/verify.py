"""`dtsflow verify`: finds and names every damage of volumes.

It also checks whether volumes that lie together make whole sets, and recognises the
kind of a damaged file.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtsflow.errors import HeaderError, SetError, VolumeError
from dtsflow.memory.limit import cpu_limit
from dtsflow.ranks.collective import Collective
from dtsflow.ranks.group import Group
from dtsflow.volume.datasets.scan import find, group_files, is_complete, one_set
from dtsflow.volume.format.extension import EXTENSION_MAGIC, EXTENSION_OFFSET
from dtsflow.volume.format.header import BLOCK_BYTES, BLOCK_MAGIC, HEADER_BYTES, Header, Kind
from dtsflow.volume.format.io import opened, read_bytes
from dtsflow.volume.format.pixel_file import SMALL_SETS
from dtsflow.volume.verifying.block_volume import (
    differences,
    read_block_volume,
    read_fields,
    read_header_area,
)
from dtsflow.volume.verifying.blocks import Decode, Means, dismiss, serve
from dtsflow.volume.verifying.pixel_file import pixel_problems, read_pixel_file, right_small_header
from dtsflow.volume.verifying.problems import volume_problems
from dtsflow.volume.verifying.report import Problem, Report, told

Member = tuple[Path, bytes]  # a file, and its header as it should be


def set_problems(place: Path, members: Sequence[Member]) -> tuple[list[Problem], list[str]]:
    """Find what is wrong with the sets that these files of a folder or pattern make.

    Several whole data sets beside each other are allowed.
    """
    try:
        found = [(path, Header.parse(raw, path)) for path, raw in members]
    except HeaderError:
        return [], [f"{place}: whether all volumes are here was not checked, a header is damaged"]
    groups = group_files(found)
    whole = [group for group in groups if is_complete(group)]
    broken = [member for group in groups if not is_complete(group) for member in group]
    problems = []
    for group in (*whole, broken):
        try:
            if group:
                one_set(group, place)
        except SetError as error:
            problems.append(Problem(place, "set", None, None, str(error)))
    return problems, []


_ALIKE = 6  # fields in which a damaged header may differ from its kind's


def recognise(path: Path, size: int) -> Kind | None:
    """Return the kind of a volume: as its header says, else as most of the file does.

    Raises:
        VolumeError: The file cannot be read.
    """
    if size < HEADER_BYTES:
        return None
    with opened(path) as descriptor:
        raw = read_bytes(descriptor, HEADER_BYTES, 0, path).tobytes()
        marks = [
            read_bytes(descriptor, 4, place, path).tobytes() if size >= place + 4 else b""
            for place in (EXTENSION_OFFSET, BLOCK_BYTES)
        ]
    for kind in Kind:
        if raw[8:16] == kind.value.rjust(8).encode():
            return kind
    if marks[0] == EXTENSION_MAGIC or marks[1] in BLOCK_MAGIC:
        return Kind.IMAGENET
    if raw[:4] == b".DTS" and read_fields(raw)["header_bytes"] == BLOCK_BYTES:
        return Kind.IMAGENET
    samples = read_fields(raw)["num_samples"]
    unlike = {
        kind: len(differences(raw, right_small_header(raw, kind, samples))) for kind in SMALL_SETS
    }
    likely = min(unlike, key=lambda kind: unlike[kind])
    return likely if unlike[likely] <= _ALIKE else None


Progress = Callable[[int, int], None]

_DIGITS = 16  # of a digest


@dataclass(frozen=True, slots=True)
class _File:
    """The report of one file; `header` is as it should be, None if nobody knows."""

    path: Path
    report: Report
    header: bytes | None

    def facts(self) -> dict[str, Any]:
        """Return the result as values that JSON knows."""
        header = None if self.header is None else self.header.hex()
        return {"path": str(self.path), "report": self.report.facts(), "header": header}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> "_File":
        """Make the same again from what `facts` gave."""
        header = None if facts["header"] is None else bytes.fromhex(facts["header"])
        return cls(Path(facts["path"]), Report.from_facts(facts["report"]), header)


def verify(
    paths: Sequence[Path | str],
    *,
    decode: Decode | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    group: Group | None = None,
) -> Report:
    """Check every byte of the volumes that files, folders and patterns name.

    The check goes on whatever is found wrong. `decode` is called with every stored
    image, by several threads, and raises DecodeError for a bad one. `progress` is
    called with the number of blocks done and of all blocks. For a folder or pattern,
    the sets must be whole too.

    All ranks of `group` call it and get the same report. They share out the files, or
    the blocks of each where there are more ranks than files; `progress` then counts
    this rank's own. An error on one rank has to end the others, see `ending_all`.

    Raises:
        SetError: A path names no volume.
        CommonError: A path names no volume on some of several ranks, or the ranks do
            not see the same.
    """
    collective = Collective(group)
    named = collective.together(lambda: [(Path(path), find(path)) for path in paths])
    files = list(dict.fromkeys(path for _, found in named for path in found))
    collective.agree(lambda: {"files": _digest(files), "decode": str(decode is not None)})
    by_files = len(files) >= collective.size
    done, total = 0, _own_blocks(files, collective, by_files=by_files)

    def tick() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, max(done, total))

    threads = workers or collective.cpu_share or cpu_limit()
    if by_files:
        checked = _check_files(files, Means(decode, threads, tick), collective)
    else:
        checked = _check_together(files, Means(decode, threads, tick, collective))
    reports = [one.report for one in checked.values()]
    for place, found in named:
        if found != [place.expanduser()]:
            reports.append(_check_sets(place, [checked[path] for path in found]))
    return _total(reports)


def _check_files(files: Sequence[Path], means: Means, collective: Collective) -> dict[Path, _File]:
    """Check files: each rank its own."""
    own = [_check(path, means).facts() for path in collective.own(files)]
    return dict(zip(files, map(_File.from_facts, collective.exchange(own)), strict=True))


def _check_together(files: Sequence[Path], means: Means) -> dict[Path, _File]:
    """Check each file with all ranks: rank 0 leads, the others do blocks for it."""
    found: list[dict[str, Any]] = []
    if means.collective.is_first:
        found = [_check(path, means).facts() for path in files]
        dismiss(means)
    else:
        serve(means)
    told = json.loads(means.collective.tell(json.dumps(found)))
    return dict(zip(files, map(_File.from_facts, told), strict=True))


def _check(path: Path, means: Means) -> _File:
    try:
        size = path.stat().st_size
        kind = recognise(path, size)
        if kind is None:
            return _unknown(path, size)
        return (
            _check_blocks(path, means) if kind.in_blocks else _check_pixels(path, kind, size, means)
        )
    except (VolumeError, OSError) as error:
        what = told(error, path) if isinstance(error, VolumeError) else str(error)
        return _File(path, Report(1, 0, 0, (Problem(path, "file", None, None, what),), ()), None)


def _check_blocks(path: Path, means: Means) -> _File:
    volume = read_block_volume(read_header_area(path), means)
    problems, notes = volume_problems(volume)
    samples = sum(one.count for one in volume.facts)
    report = Report(1, len(volume.facts), samples, tuple(problems), tuple(notes))
    return _File(path, report, volume.right_header)


def _check_pixels(path: Path, kind: Kind, size: int, means: Means) -> _File:
    file = read_pixel_file(path, kind, size)
    problems, notes = pixel_problems(file)
    means.tick()
    report = Report(1, 1, file.samples, tuple(problems), tuple(notes))
    return _File(path, report, file.right_header)


def _unknown(path: Path, size: int) -> _File:
    """Report a file that is not a volume, or has no more than a few words."""
    with opened(path) as descriptor:
        raw = read_bytes(descriptor, min(size, HEADER_BYTES), 0, path).tobytes()
    try:
        Header.parse(raw, path)
        what = "nothing in it tells what it holds"
    except HeaderError as error:
        what = told(error, path)
    return _File(path, Report(1, 0, 0, (Problem(path, "header", None, None, what),), ()), None)


def _check_sets(place: Path, files: Sequence[_File]) -> Report:
    members = [(one.path, one.header or b"") for one in files]
    problems, notes = set_problems(place, members)
    return Report(0, 0, 0, tuple(problems), tuple(notes))


def _total(reports: Iterable[Report]) -> Report:
    every = list(reports)
    return Report(
        files=sum(one.files for one in every),
        blocks=sum(one.blocks for one in every),
        samples=sum(one.samples for one in every),
        problems=tuple(problem for one in every for problem in one.problems),
        notes=tuple(note for one in every for note in one.notes),
    )


def _digest(files: Sequence[Path]) -> str:
    """Digest the files' names and sizes."""
    facts = [(path.name, path.stat().st_size if path.exists() else 0) for path in files]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:_DIGITS]


def _own_blocks(files: Sequence[Path], collective: Collective, *, by_files: bool) -> int:
    """Return how many blocks this rank has to read."""
    if by_files:
        return sum(map(_blocks, collective.own(files)))
    return sum(len(collective.own(range(_blocks(path)))) for path in files)


def _blocks(path: Path) -> int:
    """Return the blocks of a file by its size; a pixel set is read as one."""
    try:
        return max(os.stat(path).st_size // BLOCK_BYTES - 1, 1)  # noqa: PTH116
    except OSError:
        return 1
