"""Which samples of a damaged block are damaged, by the manifest."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from dtsflow.errors import VolumeError
from dtsflow.memory.align import aligned_bytes
from dtsflow.volume.checksum import crc32
from dtsflow.volume.exact_read import opened, read_into
from dtsflow.volume.extension import Extension
from dtsflow.volume.format import BLOCK_BYTES
from dtsflow.volume.manifest import Entry, manifest_path, read_manifest
from dtsflow.volume.verifying.report import Problem, told
from dtsflow.volume.verifying.structure import Memory, Structure, examine, starts

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
    """Where the samples lie: at level 0 the manifest says it too."""
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
