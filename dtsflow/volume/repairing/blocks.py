"""Repair of damaged, missing and moved blocks.

Right bytes come from another file of the same volume (`GoodCopy`), or from the images
that the blocks were packed from (`Sources`). Those are encoded again as the index
recorded it, and laid out again.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from dtsflow.errors import PackError, VolumeError
from dtsflow.memory.align import aligned_bytes
from dtsflow.volume.format.block import fill_block
from dtsflow.volume.format.extension import EXTENSION_OFFSET, Extension
from dtsflow.volume.format.header import (
    BLOCK_BYTES,
    BLOCK_CAPACITY,
    BLOCK_ROOM,
    LARGEST_LABEL,
    aligned,
)
from dtsflow.volume.format.io import combine_blocks, crc32, opened, read_bytes, read_into
from dtsflow.volume.format.manifest import Entry, manifest_path, read_manifest
from dtsflow.volume.packing.encode import Unusable
from dtsflow.volume.packing.options import Recipe
from dtsflow.volume.packing.prepare import Preparer
from dtsflow.volume.repairing.patch import Patch, move
from dtsflow.volume.source.base import why_unsafe
from dtsflow.volume.verifying.block_volume import (
    BlockVolume,
    HeaderArea,
    read_block_volume,
    read_fields,
    read_header_area,
)
from dtsflow.volume.verifying.blocks import Means, Memory
from dtsflow.volume.verifying.problems import volume_problems

Remake = Callable[[bytes], bytes]


def recorded_remake(extension: Extension | None, level: int) -> Remake | None:
    """Return what turns a source's bytes into the stored ones; None if it is unknown.

    The result raises VolumeError for bytes that are not an image.
    """
    if extension is None:
        return None
    preparer = _preparer(extension.about.options, level)
    if preparer is None:
        return None

    def remake(data: bytes) -> bytes:
        try:
            return preparer.make(data).data
        except (Unusable, PackError) as verdict:
            raise VolumeError(f"a source cannot be packed again: {verdict}") from verdict

    return remake


def _preparer(options: Mapping[str, Any], level: int) -> Preparer | None:
    facts, layout = options.get("recipe"), options.get("layout")
    if not isinstance(layout, dict) or options.get("level") != level:
        return None
    try:
        recipe = None if facts is None else Recipe.from_facts(facts)
    except ValueError:
        return None
    reencodes = layout.get("oversize") == "reencode"
    return Preparer(
        recipe=recipe,
        capacity=BLOCK_ROOM[level],
        reencodes=reencodes,
        restarts=options.get("restarts") is True,
    )


@dataclass(frozen=True, slots=True)
class Wanted:
    """A block to lay out: `count` samples from `first_id` on."""

    block: int
    first_id: int
    count: int


@dataclass(frozen=True, slots=True)
class Sources:
    """A folder of images as it was packed.

    `remake` makes what the volume stores of a source; None means the same bytes.
    """

    folder: Path
    volume: Path
    level: int
    remake: Remake | None

    def lay_out(self, wanted: Sequence[Wanted], memory: Memory) -> Iterator[tuple[int, str]]:
        """Fill `memory` with each wanted block in turn; they come in order.

        Yields:
            The block, and why it could not be laid out, or nothing.
        """
        entries = read_manifest(manifest_path(self.volume))
        own: list[Entry] = []
        done, damage = 0, ""
        for one in wanted:
            first, done = one.first_id - done, one.first_id + one.count
            try:
                own = list(islice(entries, first, first + one.count))
            except (VolumeError, OSError) as error:
                damage = f"the manifest that names its images cannot be read: {error}"
            yield one.block, damage or self._fill(one, own, memory)

    def _fill(self, one: Wanted, entries: Sequence[Entry], memory: Memory) -> str:
        if self.level > 0 and self.remake is None:
            return f"how its images were encoded for level {self.level} is not recorded"
        if len(entries) != one.count or one.count > BLOCK_CAPACITY[self.level]:
            return f"the manifest has {len(entries)} of its {one.count} images"
        samples = []
        for entry in entries:
            try:
                samples.append(self._stored(entry))
            except (VolumeError, OSError) as error:
                return str(error)
        room = BLOCK_ROOM[self.level]
        if sum(aligned(len(sample)) for sample in samples) > room:
            return "its images are larger than a block"
        labels = [entry.label for entry in entries]
        if not all(type(label) is int and 0 <= label <= LARGEST_LABEL for label in labels):
            return "the manifest has a label that no block can hold"
        fill_block(memory, block=one.block, level=self.level, samples=samples, labels=labels)
        return ""

    def _stored(self, entry: Entry) -> bytes:
        name = str(entry.name)  # a manifest may say anything
        if unsafe := why_unsafe(name):
            raise VolumeError(f"the manifest names {name!r}, {unsafe}")
        path = self.folder / name
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != entry.sha256:
            raise VolumeError(f"{path} is not the image that was packed: its SHA-256 differs")
        return data if self.remake is None else self.remake(data)


@dataclass(frozen=True, eq=False)
class GoodCopy:
    """A copy of a block volume; it may itself be damaged in other blocks.

    All of it is read only where no single block can be proven alone.
    """

    area: HeaderArea
    workers: int

    @property
    def path(self) -> Path:
        """Return the path of the file."""
        return self.area.path

    @cached_property
    def volume(self) -> BlockVolume:
        """Return the whole copy as a volume."""
        return read_block_volume(self.area, Means(None, self.workers, _ignore))

    @cached_property
    def is_sound(self) -> bool:
        """Tell whether nothing in it is wrong; its manifest does not count."""
        problems, _ = volume_problems(self.volume)
        return all(problem.part == "manifest" for problem in problems)

    @property
    def crc_code(self) -> int:
        """Return the CRC-32 of all blocks as its header gives it."""
        return int(read_fields(self.area.raw)["crc_code"])

    @property
    def crcs(self) -> tuple[int, ...]:
        """Return the CRC-32 of each block as it is."""
        return tuple(one.crc or 0 for one in self.volume.facts)

    def read(self, block: int, memory: Memory) -> bool:
        """Fill `memory` with a block; whether the copy has it and could be read."""
        try:
            with opened(self.path) as descriptor:
                return read_into(descriptor, memory, (1 + block) * BLOCK_BYTES, self.path)
        except VolumeError:
            return False  # the caller says which block could not be had from anywhere

    def behind_header(self) -> bytes:
        """Return the header area from the index on."""
        with opened(self.path) as descriptor:
            size = BLOCK_BYTES - EXTENSION_OFFSET
            return read_bytes(descriptor, size, EXTENSION_OFFSET, self.path).tobytes()


def open_copy(path: Path, workers: int) -> GoodCopy:
    """Look at the header area of a copy.

    Raises:
        VolumeError: It cannot be read.
    """
    return GoodCopy(read_header_area(path), workers)


def _ignore() -> None:
    """Report nothing."""


_NEEDED = "give a good copy, or the folder that was packed, with --from"


@dataclass(frozen=True, slots=True)
class Target:
    """The required blocks of a volume: the CRC-32 and the samples of each."""

    crcs: tuple[int, ...]
    counts: tuple[int, ...]


def target(volume: BlockVolume, copy: GoodCopy | None) -> Target | None:
    """Find the blocks' proof: the index, a sound copy, or their numbers and CRC-32.

    None if nothing does, or if they are right.
    """
    extension = volume.area.extension
    if extension is not None:
        return Target(tuple(extension.block_crcs.tolist()), tuple(extension.counts.tolist()))
    if copy is not None and copy.is_sound and copy.crc_code == volume.header_crc_code:
        return Target(copy.crcs, copy.volume.counts)
    ordered = sorted(volume.facts, key=lambda one: one.number)
    crcs = tuple(one.crc or 0 for one in ordered)
    are_all = volume.is_whole and combine_blocks(crcs, BLOCK_BYTES) == volume.header_crc_code
    return Target(crcs, tuple(one.count for one in ordered)) if are_all else None


def mend_blocks(
    volume: BlockVolume,
    right: Target,
    patch: Patch,
    copy: GoodCopy | None,
    sources: Sources | None,
) -> tuple[int, ...]:
    """Write every block that is not `right`, if its right bytes can be had.

    Returns:
        The CRC-32 of each block afterwards; 0 of one that is not there.
    """
    crcs = {one.block: one.crc or 0 for one in volume.facts}
    wrong = [k for k, crc in enumerate(right.crcs) if crcs.get(k) != crc]
    memory = aligned_bytes(BLOCK_BYTES)
    moved = _moved(volume, right, wrong)
    _put_back(volume, moved, patch)
    left = [k for k in wrong if k not in moved]
    if copy is not None:
        left = [k for k in left if not _take(k, right, patch, copy, memory)]
    if sources is not None:
        left = _lay_out(left, right, patch, sources, memory)
    else:
        patch.left += [f"block {k}: its right bytes are nowhere: {_NEEDED}" for k in left]
    mended = {k: right.crcs[k] for k in wrong if k not in left}
    return tuple((crcs | mended).get(k, 0) for k in range(len(right.crcs)))


def _moved(volume: BlockVolume, right: Target, wrong: list[int]) -> dict[int, int]:
    """Map each wrong block to the index at which its right bytes lie."""
    found = {one.crc: one.block for one in volume.facts if one.block in wrong}
    return {k: found[right.crcs[k]] for k in wrong if right.crcs[k] in found}


def _put_back(volume: BlockVolume, moved: dict[int, int], patch: Patch) -> None:
    with opened(volume.path) as descriptor:

        def read(block: int) -> bytes:
            place = (1 + block) * BLOCK_BYTES
            return read_bytes(descriptor, BLOCK_BYTES, place, volume.path).tobytes()

        def write(block: int, data: bytes) -> None:
            what = f"block {block}: put back from where block {moved[block]} belongs"
            patch.write((1 + block) * BLOCK_BYTES, data, what)

        move(moved, read, write)


def _take(block: int, right: Target, patch: Patch, copy: GoodCopy, memory: Memory) -> bool:
    if not copy.read(block, memory) or crc32(memory.data) != right.crcs[block]:
        return False
    patch.write((1 + block) * BLOCK_BYTES, memory.data, f"block {block}: taken from {copy.path}")
    return True


def _lay_out(
    blocks: list[int], right: Target, patch: Patch, sources: Sources, memory: Memory
) -> list[int]:
    first_ids = list(accumulate(right.counts, initial=0))
    wanted = [Wanted(k, first_ids[k], right.counts[k]) for k in blocks]
    left = []
    for block, why in sources.lay_out(wanted, memory):
        if why or crc32(memory.data) != right.crcs[block]:
            left.append(block)
            reason = why or "the images do not give the block that was packed"
            patch.left.append(f"block {block}: {reason}: {_NEEDED}")
        else:
            what = f"block {block}: laid out again from {sources.folder}"
            patch.write((1 + block) * BLOCK_BYTES, memory.data, what)
    return left
