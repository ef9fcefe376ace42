"""Export of a data set as WebDataset shards."""

import io
import posixpath
import tarfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PackError
from dtsflow.volume.datasets.access import OpenVolumes
from dtsflow.volume.exporting.samples import ExportNames, check_block, check_whole, png
from dtsflow.volume.format.header import BLOCK_BYTES
from dtsflow.volume.format.io import combine_blocks, crc32
from dtsflow.volume.format.pixel_file import payload_crc
from dtsflow.volume.source.base import IMAGE_SUFFIXES, sniffed_suffix
from dtsflow.volume.source.webdataset import CLASS_NAMES, CLASS_SUFFIX

_MODE = 0o444


@dataclass(frozen=True, slots=True, eq=False)
class ShardPlan:
    """The samples of each shard, by sample_id; `shards` has one range each.

    An image is named by its key and its suffix. If `suffixes` has none for it, the
    bytes decide the suffix.
    """

    root: Path
    shards: Sequence[range]
    keys: Sequence[str]
    suffixes: Sequence[str]
    labels: npt.NDArray[np.int32]

    def path(self, number: int) -> Path:
        """Return the path of shard `number`."""
        return self.root / f"shard-{number:06d}.tar"


def plan_shards(
    opened: OpenVolumes, names: ExportNames, root: Path, shard_samples: int
) -> ShardPlan:
    """Plan shards in the order of the samples, and write the list of class names.

    A key is the name that the sample has in an export to folders, without its suffix
    and with `_` for dots, which would end it. Where two are alike, the later one gets
    its number after it. A sample is two members: the image, and its label as `.cls`.
    `classnames.txt` has one name a line; it is not written where classes have none.

    Raises:
        PackError: A class name cannot be a line of the list.
    """
    volumes = opened.volumes
    if volumes.names_classes:
        _write_class_names(root / CLASS_NAMES, names.classes)
    keys: list[str] = []
    suffixes: list[str] = []
    taken: set[str] = set()
    for sample_id, name in enumerate(names.names):
        key, suffix = _parted(name)
        while key in taken:
            key = f"{key}-{sample_id}"
        taken.add(key)
        keys.append(key)
        suffixes.append(suffix)
    starts = range(0, volumes.num_samples, shard_samples)
    shards = [range(start, min(start + shard_samples, volumes.num_samples)) for start in starts]
    return ShardPlan(root, shards, keys, suffixes, opened.labels)


def write_shards(opened: OpenVolumes, plan: ShardPlan, pool: ThreadPoolExecutor) -> Iterator[int]:
    """Write every shard, one a thread, and give the images of each in turn.

    Raises:
        BlockError, VolumeError: A checksum does not agree.
    """
    if opened.volumes.layout == "pixels":
        (file,) = opened.volumes.files
        check_whole(file, payload_crc(file.path, file.size))
    crcs: dict[int, int] = {}
    for found in pool.map(
        lambda number: _write_shard(opened, plan, number), range(len(plan.shards))
    ):
        crcs |= found.crcs
        yield found.images
    if opened.volumes.layout == "blocks":
        _check_files(opened, crcs)


@dataclass(frozen=True, slots=True)
class _Written:
    """The images of a shard, and the CRC-32 of every block that holds one."""

    images: int
    crcs: dict[int, int]


def _write_shard(opened: OpenVolumes, plan: ShardPlan, number: int) -> _Written:
    ids = plan.shards[number]
    crcs: dict[int, int] = {}
    with tarfile.open(plan.path(number), "x", format=tarfile.GNU_FORMAT) as tar:
        for sample_id, data in _samples(opened, ids, crcs):
            suffix = plan.suffixes[sample_id] or sniffed_suffix(data)
            _add(tar, plan.keys[sample_id] + suffix, data)
            label = str(plan.labels[sample_id]).encode("ascii")
            _add(tar, f"{plan.keys[sample_id]}.{CLASS_SUFFIX}", memoryview(label))
    return _Written(len(ids), crcs)


def _samples(
    opened: OpenVolumes, ids: range, crcs: dict[int, int]
) -> Iterator[tuple[int, memoryview]]:
    """Yield the bytes of each sample; `crcs` gets those of the blocks they lie in."""
    volumes = opened.volumes
    if volumes.layout == "pixels":
        yield from ((sample_id, png(volumes, opened[sample_id].data)) for sample_id in ids)
        return
    blocks = range(volumes.block_of(ids[0])[0], volumes.block_of(ids[-1])[0] + 1)
    for number in blocks:
        block = opened.block(number)
        crcs[number] = crc32(block.memory.data)
        for sample_id, data in enumerate(block.samples, block.first_id):
            if sample_id in ids:
                yield sample_id, data


def _check_files(opened: OpenVolumes, crcs: dict[int, int]) -> None:
    """Hold the checksums of all blocks against those of their files."""
    number = 0
    for file in opened.volumes.files:
        own = []
        for place in range(len(file.counts)):
            # An empty block at an end of the set lies in no shard.
            crc = crcs[number] if number in crcs else crc32(opened.block(number).memory.data)
            check_block(file, place, crc)
            own.append(crc)
            number += 1
        check_whole(file, combine_blocks(own, BLOCK_BYTES))


def _add(tar: tarfile.TarFile, name: str, data: memoryview) -> None:
    member = tarfile.TarInfo(name)  # with no time and no owner: the same bytes every time
    member.size = len(data)
    member.mode = _MODE
    tar.addfile(member, io.BytesIO(data))


def _parted(name: str) -> tuple[str, str]:
    """Part a name into a key, and the suffix of an image if it has one."""
    folder, slash, base = name.rpartition("/")
    stem, suffix = posixpath.splitext(base)
    if suffix.lower() not in IMAGE_SUFFIXES:
        stem, suffix = base, ""
    return f"{folder}{slash}{stem.replace('.', '_')}", suffix


def _is_line(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:  # of a folder whose name is not UTF-8
        return False
    return name.splitlines() == [name] and bool(name.strip())


def _write_class_names(path: Path, classes: Sequence[str]) -> None:
    for name in classes:
        if not _is_line(name):
            raise PackError(
                f"the class {name!r} cannot be a line of {path.name}, which shards have their "
                "class names from. Export to folders."
            )
    path.write_text("".join(f"{name}\n" for name in classes), encoding="utf-8")
