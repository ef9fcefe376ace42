"""Finding volumes: from a path or a pattern to one whole data set.

Where there is none, the error says why. The indexes in front of the blocks are read
without the samples behind them.
"""

import glob
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby, islice
from pathlib import Path

from dtsflow.errors import SetError
from dtsflow.volume.datasets.volume_set import BlockSpan, VolumeSet
from dtsflow.volume.format.block import BlockIndex
from dtsflow.volume.format.file import SCAN_THREADS, ScanCache, read_file, read_header
from dtsflow.volume.format.header import SUFFIX, Header
from dtsflow.volume.format.io import opened, read_bytes


def find(path: str | Path) -> list[Path]:
    """Find the volumes that a file, a folder (its *.dts) or a pattern names, sorted.

    A path that exists is never taken for a pattern, whatever characters it has.

    Raises:
        SetError: Nothing was found; says what was looked for.
    """
    place = Path(path).expanduser()
    if place.is_dir():
        found = [entry for entry in place.iterdir() if _is_volume(entry)]
        looked_for = f"*{SUFFIX} in the folder {place}"
    elif _exists(place):
        if not place.is_file():
            raise SetError(f"{place} is no regular file. Name a volume, a folder or a pattern.")
        return [place]
    else:
        found = [Path(name) for name in glob.glob(str(place), recursive=True)]  # noqa: PTH207  # Path.glob takes no absolute pattern
        found = [entry for entry in found if entry.is_file()]
        looked_for = f"{place} (no such file or folder, and as a pattern it matches nothing)"
    if not found:
        raise SetError(
            f"no volume found: looked for {looked_for}, from the working folder {Path.cwd()}. "
            "Check the path, or pack one with `dtsflow pack`."
        )
    return sorted(found)


def _exists(place: Path) -> bool:
    try:
        return place.exists()
    except OSError as error:  # a name longer than the system allows
        raise SetError(f"{str(place)[:80]}… cannot be looked up: {error.strerror}.") from error


def _is_volume(entry: Path) -> bool:
    # A writer's unfinished file is hidden.
    return entry.suffix == SUFFIX and not entry.name.startswith(".") and entry.is_file()


# What all volumes of a set say alike, with the words a message uses for it.
_SHARED = {
    "dataset_type": "kind",
    "compress_level": "level",
    "is_training": "is_training",
    "num_volumes": "num_volumes",
    "total_blocks": "total_blocks",
}
_LISTED = 8  # missing volumes that a message names
_NUMBERING = re.compile(r"-\d{5}-of-\d{5}$")

Found = tuple[Path, Header]


def scan(path: str | Path, cache: Path | None = None) -> VolumeSet:
    """Read the one data set that a file, a folder or a glob pattern names.

    Every header and block index is read and checked; no sample is, and nothing stays
    open. `cache` is a folder. The facts from the block indexes of a volume without an
    extension index are kept there and looked up the next time. The folder is made when
    there is something to keep.

    Raises:
        SetError: Nothing is there, several data sets are, or one is not whole.
        HeaderError, BlockError: A file is damaged.
    """
    read = partial(read_file, cache=None if cache is None else ScanCache(cache))
    with ThreadPoolExecutor(SCAN_THREADS) as pool:
        places = find(path)
        found = list(zip(places, pool.map(read_header, places), strict=True))
        members = one_set(found, path)
        volumes = VolumeSet(tuple(pool.map(read, (place for place, _ in members))))
    _check_names(volumes)
    if volumes.num_samples == 0:
        raise SetError(f"{path} holds no samples: all its blocks are empty. Export it again.")
    return volumes


def _check_names(volumes: VolumeSet) -> None:
    named = {
        file.extension.about.class_names: file.path
        for file in volumes.files
        if file.extension is not None
    }
    if len(named) > 1:
        one, other = list(named.values())[:2]
        raise SetError(
            f"{one} and {other} have the same shape and different class names: they are of "
            "two sets. Name the volumes of one, or move the foreign file away."
        )


def one_set(found: Sequence[Found], path: str | Path) -> list[Found]:
    """Return the files of the one whole set that was found, in the order of their ids.

    Raises:
        SetError: They are several sets, or one that is not whole.
    """
    groups = group_files(found)
    if len(groups) > 1:
        if all(is_complete(group) for group in groups):
            raise SetError(_several(groups, path))
        raise SetError(_foreign(groups))
    (group,) = groups
    _check_ids(group)
    _check_blocks(group)
    return sorted(group, key=lambda member: member[1].volume_id)


def group_files(found: Sequence[Found]) -> list[list[Found]]:
    """Sort files into the data sets they may belong to."""
    alike: dict[tuple[object, ...], list[Found]] = defaultdict(list)
    for place, header in found:
        shared = tuple(getattr(header, name) for name in _SHARED)
        alone = place if header.num_volumes == 1 else None
        alike[(alone, *shared)].append((place, header))
    return [part for group in alike.values() for part in _part_by_name(group)]


def _part_by_name(group: list[Found]) -> list[list[Found]]:
    """Part by name sets that have one shape; one set may have any names."""
    named: dict[str, list[Found]] = defaultdict(list)
    for place, header in group:
        named[_NUMBERING.sub("", place.stem)].append((place, header))
    parts = list(named.values())
    return parts if all(is_complete(part) for part in parts) else [group]


def is_complete(group: Sequence[Found]) -> bool:
    """Tell whether every volume of a set is there, once."""
    ids = sorted(header.volume_id for _, header in group)
    # By length first: a damaged header may say that there are four thousand million.
    return len(ids) == group[0][1].num_volumes and ids == list(range(len(ids)))


def _check_ids(group: Sequence[Found]) -> None:
    by_id: dict[int, Path] = {}
    for place, header in group:
        if header.volume_id in by_id:
            raise SetError(
                f"{place} and {by_id[header.volume_id]} both say they are volume "
                f"{header.volume_id} of their set. Remove the copy, or name the files to use."
            )
        by_id[header.volume_id] = place
    wanted = group[0][1].num_volumes
    if len(by_id) < wanted:
        missing = list(islice((k for k in range(wanted) if k not in by_id), _LISTED))
        raise SetError(
            f"{group[0][0]} belongs to a set of {wanted} volumes and {len(by_id)} are here; "
            f"missing: {', '.join(f'{k + 1:05d}-of-{wanted:05d}' for k in missing)}"
            f"{' and more' if wanted - len(by_id) > len(missing) else ''}. Fetch them, or "
            "name the folder or a pattern that holds all."
        )


def _check_blocks(group: Sequence[Found]) -> None:
    total = group[0][1].total_blocks
    blocks = sum(header.num_blocks for _, header in group)
    if group[0][1].dataset_type.in_blocks and blocks != total:
        raise SetError(
            f"{group[0][0]}: total_blocks of the set is {total}, its {len(group)} volumes have "
            f"{blocks}. A header is damaged, or a volume comes from another export."
        )


def _foreign(groups: Sequence[Sequence[Found]]) -> str:
    ours = max(groups, key=len)
    member, header = ours[0]
    place, other = next(group for group in groups if group is not ours)[0]
    differing = [
        f"{word} {_word(getattr(other, name))} against {_word(getattr(header, name))}"
        for name, word in _SHARED.items()
        if getattr(other, name) != getattr(header, name)
    ]
    return (
        f"{place} does not belong to the set of {member}: {'; '.join(differing)}. Name the "
        "volumes of one set only, or move the foreign file away."
    )


def _several(groups: Sequence[Sequence[Found]], path: str | Path) -> str:
    lines = "".join(f"\n  {_summary(group)}" for group in groups)
    return f"{path} names {len(groups)} data sets; name one of them:{lines}"


def _summary(group: Sequence[Found]) -> str:
    place, header = group[0]
    name = _NUMBERING.sub("-*", place.stem) + place.suffix if len(group) > 1 else place.name
    level = f" LV{header.compress_level}" if header.dataset_type.in_blocks else ""
    part = "train" if header.is_training else "val"
    return f"{place.with_name(name)}: {header.dataset_type.value} {part}{level}"


def _word(value: object) -> str:
    return str(getattr(value, "value", value))


def read_indexes(
    volumes: VolumeSet, blocks: Iterable[int]
) -> Iterator[tuple[BlockSpan, BlockIndex]]:
    """Read and check the index of each block, with one open file at a time.

    Raises:
        BlockError: The index of a block is damaged.
        VolumeError: A file cannot be read.
    """
    spans = ((volumes.span(block), block) for block in blocks)
    for path, group in groupby(spans, key=lambda one: one[0].path):
        with opened(path) as descriptor:
            for span, block in group:
                size = volumes.index_bytes(block)
                front = read_bytes(descriptor, size, span.offset, path)
                yield span, volumes.index(block, front)
