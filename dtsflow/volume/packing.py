"""From a folder of images to one volume, bytes unchanged."""

import hashlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dtsflow.errors import PackError
from dtsflow.volume.bins import first_fit_decreasing
from dtsflow.volume.format import (
    BLOCK_BYTES,
    BLOCK_CAPACITY,
    BLOCK_HEADER_BYTES,
    SUFFIX,
    aligned,
)
from dtsflow.volume.image_tree import read_tree
from dtsflow.volume.vetting import Accepted, Reject, vet, write_rejects
from dtsflow.volume.writer import Facts, Samples, refuse_existing, write_volume

log = logging.getLogger(__name__)

Split = Literal["train", "val", "test"]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Packed:
    """What was written; `images` and `rejects` together are all that was found."""

    path: Path
    images: int
    classes: int
    blocks: int
    bytes: int
    rejects: int


def pack_folder(
    source: Path,
    destination_folder: Path,
    *,
    split: Split,
    level: Literal[0] = 0,
    name: str | None = None,
    progress: Progress | None = None,
) -> Packed:
    """Pack the class folders below `source` into `NAME_SPLIT_lv0.dts`.

    The same tree gives the same bytes on every machine. Images that cannot be read or
    are larger than a block are left out and listed beside the volume in
    `VOLUME.rejects.jsonl`. `name` is the source folder's, in lower case, unless given.
    `progress` is called with the images done and all, twice through: vetted, written.

    Raises:
        PackError: There is no image, none is usable, the volume exists already, the
            disk is full, or a source file changed meanwhile.
    """
    report = progress or _silent
    path = destination_folder / f"{_stem(source, name)}_{split}_lv{level}{SUFFIX}"
    refuse_existing(path)
    tree = read_tree(source)
    if not tree.images:
        raise PackError(f"{source} holds no images (.jpg .jpeg .png .webp .bmp) at any depth.")
    capacity = BLOCK_BYTES - BLOCK_HEADER_BYTES[level]
    accepted, rejects = vet(tree.images, capacity, report)
    assert len(accepted) + len(rejects) == len(tree.images)
    if not accepted:
        raise PackError(
            f"all {len(rejects)} images below {source} were rejected; the first is "
            f"{rejects[0].name}: {rejects[0].reason}."
        )
    blocks = _arrange(accepted, capacity, BLOCK_CAPACITY[level])
    facts = Facts(
        level=level,
        is_training=split == "train",
        num_blocks=len(blocks),
        num_classes=len(tree.classes),
        max_pic_area=max(one.area for one in accepted),
        source_bytes=sum(one.size for one in accepted),
    )
    _write(path, facts, _read_blocks(blocks, len(accepted), report), rejects)
    if rejects:
        log.warning("%s: %d of %d images rejected", path, len(rejects), len(tree.images))
    nbytes = (1 + len(blocks)) * BLOCK_BYTES
    return Packed(path, len(accepted), len(tree.classes), len(blocks), nbytes, len(rejects))


def _arrange(accepted: Sequence[Accepted], capacity: int, most: int) -> list[list[Accepted]]:
    """Share samples out over blocks, then mix each block's order."""
    bins = first_fit_decreasing([aligned(one.size) for one in accepted], capacity, most)
    return [sorted((accepted[i] for i in members), key=_mixing_key) for members in bins]


def _mixing_key(one: Accepted) -> tuple[bytes, str]:
    # A digest of the name: an order without pattern that no library version can change.
    name = os.fsencode(one.image.name)
    return hashlib.blake2b(name, digest_size=8).digest(), one.image.name


def _read_blocks(
    blocks: Sequence[Sequence[Accepted]], images: int, progress: Progress
) -> Iterator[Samples]:
    done = 0
    for members in blocks:
        yield [_read(one) for one in members], [one.image.label for one in members]
        done += len(members)
        progress(done, images)


def _read(one: Accepted) -> bytes:
    try:
        data = one.image.path.read_bytes()
    except OSError as error:
        raise PackError(f"{one.image.path} could be read before, now: {error}.") from error
    if len(data) != one.size:
        raise PackError(
            f"{one.image.path} changed while it was packed: {one.size} bytes before, "
            f"{len(data)} now. Pack again when nothing writes to the source."
        )
    return data


def _write(path: Path, facts: Facts, blocks: Iterator[Samples], rejects: list[Reject]) -> None:
    listed = path.with_name(f"{path.name}.rejects.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    listed.unlink(missing_ok=True)  # of a volume by this name that is no longer there
    if rejects:
        write_rejects(listed, rejects)
    try:
        write_volume(path, facts, blocks)
    except BaseException:
        listed.unlink(missing_ok=True)
        raise


def _stem(source: Path, name: str | None) -> str:
    if name is not None:
        if not name or name.startswith(".") or Path(name).name != name:
            raise PackError(f"{name!r} cannot begin a file name; give letters and digits.")
        return name
    folder = source.resolve()
    return (folder.parent if folder.name in {"train", "val", "test"} else folder).name.lower()


def _silent(done: int, images: int) -> None:
    """Report nothing."""
