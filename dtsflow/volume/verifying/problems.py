"""Finding everything that is wrong with a block volume.

The manifest shows which samples of a damaged block are damaged.
"""

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from dtsflow.errors import HeaderError, VolumeError
from dtsflow.memory.align import aligned_bytes
from dtsflow.volume.format.extension import Extension
from dtsflow.volume.format.file import check
from dtsflow.volume.format.header import BLOCK_BYTES, LARGEST_LABEL, Header
from dtsflow.volume.format.io import crc32, opened, read_into
from dtsflow.volume.format.manifest import Entry, manifest_path, read_manifest
from dtsflow.volume.verifying.block_volume import BlockVolume, differences, read_fields, strange
from dtsflow.volume.verifying.blocks import BlockFacts, Memory, Structure, examine, starts
from dtsflow.volume.verifying.report import Part, Problem, told

_PIECE = 1 << 20

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Suspect:
    """A block that holds damage; `count` samples from `first_id` on belong in it."""

    block: int
    first_id: int
    count: int


def check_manifest(
    path: Path, extension: Extension | None, samples: int | None
) -> tuple[list[Problem], list[str]]:
    """Compare the manifest beside a volume with the index and the number of samples.

    Returns:
        What is wrong, and notes; `samples` of None means that nobody knows.
    """
    place = manifest_path(path)
    recorded = extension.about.manifest_sha256 if extension is not None else ""
    if not place.exists():
        missing = f"{path}: its manifest {place.name} is not here, so no source is named"
        return [], [missing] if recorded else []
    try:
        digest, lines = _digest_and_lines(place)
    except OSError as error:
        return [Problem(path, "manifest", None, None, f"{place} cannot be read: {error}")], []
    wrong = []
    if recorded and digest != recorded:
        wrong.append(f"{place.name} has the SHA-256 {digest}, the index says {recorded}")
    if samples is not None and lines != samples:
        wrong.append(f"{place.name} has {lines} lines, the volume {samples} samples")
    return [Problem(path, "manifest", None, None, what) for what in wrong], []


def damaged_samples(path: Path, level: int, suspects: Sequence[Suspect]) -> Iterator[Problem]:
    """Name every sample of these blocks whose bytes or label the manifest denies.

    The blocks come in order; the manifest is read once and never held as a whole.
    """
    memory = aligned_bytes(BLOCK_BYTES)
    try:
        entries = read_manifest(manifest_path(path))
        done = 0
        with opened(path) as descriptor:
            for suspect in suspects:
                own = list(
                    islice(
                        entries, suspect.first_id - done, suspect.first_id + suspect.count - done
                    )
                )
                done = suspect.first_id + suspect.count
                read_into(descriptor, memory, (1 + suspect.block) * BLOCK_BYTES, path)
                yield from _denied(path, level, memory, suspect, own)
    except (VolumeError, OSError) as error:
        what = told(error, path) if isinstance(error, VolumeError) else str(error)
        yield Problem(path, "manifest", None, None, what)


def _denied(
    path: Path, level: int, memory: Memory, suspect: Suspect, entries: Sequence[Entry]
) -> Iterator[Problem]:
    structure = examine(memory, block=suspect.block, level=level)
    spans = _spans(structure, memory, level, entries)
    for row, (entry, (start, end)) in enumerate(zip(entries, spans, strict=False)):
        found = []
        if crc32(memory[start:end].data) != entry.crc32:
            found.append("its bytes are not those that were packed")
        if row < structure.count and structure.labels[row] != entry.label:
            found.append(f"its label is {structure.labels[row]}, it was packed with {entry.label}")
        for what in found:
            sample = suspect.first_id + row
            yield Problem(path, "block", suspect.block, sample, f"{what} ({entry.name})")


def _spans(
    structure: Structure, memory: Memory, level: int, entries: Sequence[Entry]
) -> list[Span]:
    """Return where the samples lie: at level 0 the manifest says it too."""
    if structure.is_laid_out and structure.count == len(entries):
        ends = structure.offsets + structure.sizes
        return list(zip(structure.offsets.tolist(), ends.tolist(), strict=True))
    if level > 0 or not all(_is_size(entry.bytes) for entry in entries):
        return []
    sizes = np.array([entry.bytes for entry in entries], np.int64)
    begins = starts(sizes, level)[:-1]
    spans = list(zip(begins.tolist(), (begins + sizes).tolist(), strict=True))
    right = sum(
        crc32(memory[start:end].data) == entry.crc32
        for (start, end), entry in zip(spans, entries, strict=True)
    )
    # An image that was stored smaller than its source shifts all that follow.
    return spans if 2 * right >= len(spans) else []


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value <= BLOCK_BYTES


def _digest_and_lines(place: Path) -> tuple[str, int]:
    state = hashlib.sha256()
    lines = 0
    with place.open("rb") as file:
        while piece := file.read(_PIECE):
            state.update(piece)
            lines += piece.count(b"\n")
    return state.hexdigest(), lines


def volume_problems(volume: BlockVolume) -> tuple[list[Problem], list[str]]:
    """Find everything wrong with a block volume, and notes."""
    index = _index_problems(volume)
    whole = _whole_problems(volume)
    problems = [
        *_header_problems(volume),
        *volume.area.problems(),
        *index,
        *_size_problems(volume),
        *_block_problems(volume),
        *whole,
    ]
    known = sum(volume.counts) if volume.area.extension or volume.is_whole else None
    about_manifest, notes = check_manifest(volume.path, volume.area.extension, known)
    if manifest_path(volume.path).exists() and not about_manifest:
        suspects = _suspects(volume, is_whole_wrong=bool(whole))
        problems += damaged_samples(volume.path, volume.shape.level, suspects)
    if volume.area.index_damage:
        notes.append(f"{volume.path}: what lies behind its damaged index was not checked")
    elif volume.area.extension is None and not problems:
        notes.append(f"{volume.path}: has no index, its one CRC-32 covers all blocks together")
    return problems + about_manifest, notes


def _header_problems(volume: BlockVolume) -> list[Problem]:
    path, raw = volume.path, volume.area.raw
    if volume.is_interrupted:
        what = (
            "an interrupted export: nothing but its first words was written, so whether "
            "all blocks are there cannot be told"
        )
        return [_problem(volume, "header", what)]
    wrong = list(differences(raw, volume.right_header))
    wrong += [] if volume.area.proven else [*strange(raw), *_crc_problems(volume)]
    extension = volume.area.extension
    if extension is not None and volume.area.proven is None:
        wrong.append(
            f"it has the CRC-32 {zlib.crc32(raw):#010x}, the index says "
            f"{extension.header_crc:#010x}, and no copy of it is left"
        )
    wrong += _label_problems(volume)
    if not wrong:
        try:
            check(Header.parse(raw, path), path)
        except HeaderError as error:
            wrong.append(told(error, path))
    return [_problem(volume, "header", what) for what in wrong]


def _crc_problems(volume: BlockVolume) -> list[str]:
    found, said = volume.crc, volume.header_crc_code
    # One wrong bit in less than 512 MiB of data changes more bits of their CRC-32.
    if found is None or (found ^ said).bit_count() != 1:
        return []
    return [f"crc_code is {said:#010x}, the blocks have {found:#010x}: the word has a wrong bit"]


def _label_problems(volume: BlockVolume) -> list[str]:
    """Blame the header for a label that is not a class, if the blocks are right."""
    if volume.area.proven is not None or volume.crc != volume.header_crc_code:
        return []
    classes = read_fields(volume.area.raw)["num_classes"]
    largest = max((one.largest_label for one in volume.facts), default=-1)
    if largest < classes:
        return []
    return [f"num_classes is {classes}, the blocks are right and have the label {largest}"]


def _index_problems(volume: BlockVolume) -> list[Problem]:
    extension = volume.area.extension
    if extension is None:
        return []
    wrong = []
    samples = read_fields(volume.right_header)["num_samples"]
    if len(extension.counts) != volume.shape.num_blocks:
        wrong.append(
            f"it counts {len(extension.counts)} blocks, the header {volume.shape.num_blocks}"
        )
    if volume.area.proven is not None and sum(volume.counts) != samples:
        wrong.append(f"it counts {sum(volume.counts)} samples, the header {samples}")
    wrong += [
        f"it counts {wanted} samples in block {one.block}, the block has {one.count}"
        for one, wanted in zip(volume.facts, volume.counts, strict=False)
        if one.crc == volume.wanted_crc(one.block) and one.count != wanted
    ]
    return [_problem(volume, "index", what) for what in wrong]


def _size_problems(volume: BlockVolume) -> list[Problem]:
    size, blocks = volume.area.size, volume.shape.num_blocks
    wanted = (1 + blocks) * BLOCK_BYTES
    if size == wanted:
        return []
    what = f"it has {size} bytes, its header area and {blocks} blocks take {wanted}"
    if size > wanted:
        return [_problem(volume, "file", f"{what}: something was appended or a block has grown")]
    found = [_problem(volume, "file", f"{what}: it is cut short")]
    begun, rest = divmod(size, BLOCK_BYTES)
    first_missing = max(begun - 1, 0)
    if begun > 0 and rest:
        cut = f"only {rest} of its {BLOCK_BYTES} bytes are there"
        found.append(Problem(volume.path, "block", first_missing, None, cut))
        first_missing += 1
    if first_missing < blocks:
        last = "" if first_missing == blocks - 1 else f", and so are all up to block {blocks - 1}"
        found.append(Problem(volume.path, "block", first_missing, None, f"it is missing{last}"))
    return found


def _block_problems(volume: BlockVolume) -> list[Problem]:
    header = read_fields(volume.right_header)
    # Without proof the header may be the one that is wrong, see `_label_problems`.
    known = volume.area.proven is not None or volume.crc != volume.header_crc_code
    classes = (known and header["num_classes"]) or LARGEST_LABEL + 1
    found = []
    for one, first_id in zip(volume.facts, _ids(volume), strict=True):
        found += [
            Problem(
                volume.path,
                "block",
                one.block,
                None if finding.row is None else first_id + finding.row,
                finding.what,
            )
            for finding in one.findings
        ]
        found += _content_problems(volume, one)
        if one.largest_label >= classes:
            what = f"its label is {one.largest_label}, there are {classes} classes"
            sample = first_id + one.largest_row
            found.append(Problem(volume.path, "block", one.block, sample, what))
    return found


def _content_problems(volume: BlockVolume, one: BlockFacts) -> list[Problem]:
    wanted = volume.wanted_crc(one.block)
    if wanted is None or one.crc is None or one.crc == wanted:
        return []
    if volume.is_moved(one):
        what = f"it holds block {one.number}, whole: blocks were swapped"
    else:
        what = f"it has the CRC-32 {one.crc:#010x}, the index says {wanted:#010x}"
    return [Problem(volume.path, "block", one.block, None, what)]


def _whole_problems(volume: BlockVolume) -> list[Problem]:
    found, said = volume.crc, volume.header_crc_code
    if found is None or found == said or volume.is_interrupted or _crc_problems(volume):
        return []
    if volume.area.extension is not None and not all(map(volume.is_right, volume.facts)):
        return []  # the damaged blocks are named
    what = (
        f"its blocks have the CRC-32 {found:#010x}, the header says {said:#010x}: a block is "
        "damaged somewhere, or crc_code in the header"
    )
    return [_problem(volume, "file", what)]


def _suspects(volume: BlockVolume, *, is_whole_wrong: bool) -> list[Suspect]:
    indexed = volume.area.extension is not None
    return [
        Suspect(one.block, first_id, count)
        for one, first_id, count in zip(volume.facts, volume.first_ids, volume.counts, strict=False)
        if one.crc is not None
        and not volume.is_moved(one)
        and (not volume.is_right(one) or (is_whole_wrong and not indexed))
    ]


def _ids(volume: BlockVolume) -> Sequence[int]:
    """Return first ids for all facts, also where the index counts fewer blocks."""
    known = volume.first_ids[: len(volume.facts)]
    return [*known, *[sum(volume.counts)] * (len(volume.facts) - len(known))]


def _problem(volume: BlockVolume, part: Part, what: str) -> Problem:
    return Problem(volume.path, part, None, None, what)
