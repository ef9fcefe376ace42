"""Blocks laid out again from the images they were packed from."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from dtsflow.errors import VolumeError
from dtsflow.volume.block import fill_block
from dtsflow.volume.format import (
    BLOCK_CAPACITY,
    BLOCK_ROOM,
    LARGEST_LABEL,
    aligned,
)
from dtsflow.volume.manifest import Entry, manifest_path, read_manifest
from dtsflow.volume.repairing.remake import Remake
from dtsflow.volume.source.safe_name import why_unsafe
from dtsflow.volume.verifying.structure import Memory


@dataclass(frozen=True, slots=True)
class Wanted:
    """A block to lay out: `count` samples from `first_id` on."""

    block: int
    first_id: int
    count: int


@dataclass(frozen=True, slots=True)
class Sources:
    """A folder of images as it was packed.

    `remake` gives what the volume stores of a source; None stands for the same bytes.
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
