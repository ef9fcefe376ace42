"""Damaged, missing and moved blocks, made right again."""

from dataclasses import dataclass
from itertools import accumulate

from dtsflow.memory.align import aligned_bytes
from dtsflow.volume.checksum import combine_blocks, crc32
from dtsflow.volume.exact_read import opened, read_bytes
from dtsflow.volume.format import BLOCK_BYTES
from dtsflow.volume.repairing.from_sources import Sources, Wanted
from dtsflow.volume.repairing.good_copy import GoodCopy
from dtsflow.volume.repairing.moves import move
from dtsflow.volume.repairing.patch import Patch
from dtsflow.volume.verifying.block_volume import BlockVolume
from dtsflow.volume.verifying.structure import Memory

_NEEDED = "give a good copy, or the folder that was packed, with --from"


@dataclass(frozen=True, slots=True)
class Target:
    """What the blocks of a volume must be: the CRC-32 and the samples of each."""

    crcs: tuple[int, ...]
    counts: tuple[int, ...]


def target(volume: BlockVolume, copy: GoodCopy | None) -> Target | None:
    """What proves the blocks: the index, a sound copy, or their own numbers and CRC-32.

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
    """For each place whose block lies elsewhere in the file: where."""
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
