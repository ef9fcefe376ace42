"""One volume while it is written: blocks, manifest, rejects and journal.

The journal's marks say what is already written, so that a killed pack can go on.
"""

import contextlib
import json
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PackError
from dtsflow.volume.format.block import fill_block
from dtsflow.volume.format.extension import EXTENSION_OFFSET, About, Extension, fits
from dtsflow.volume.format.header import BLOCK_BYTES, BLOCK_CAPACITY, Header
from dtsflow.volume.format.io import crc32
from dtsflow.volume.format.manifest import Entry, manifest_path, read_manifest, rejects_path
from dtsflow.volume.packing.arrange import Cut
from dtsflow.volume.packing.prepare import Prepared, Sums
from dtsflow.volume.source.base import Reject


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The state after one block: everything up to it is in the files.

    `position` counts the items of the stream, `count` and `crc` are the block's own;
    the rest is of all blocks so far. `manifest_bytes` and `rejects_bytes` are the
    lengths of those files.
    """

    position: int = 0
    count: int = 0
    crc: int = 0
    samples: int = 0
    source_bytes: int = 0
    max_area: int = 0
    manifest_bytes: int = 0
    rejects_bytes: int = 0
    rejects: int = 0
    sums: Sums = field(default_factory=Sums)

    def line(self) -> bytes:
        """Return the mark as one line of JSON."""
        return json.dumps(asdict(self)).encode("ascii") + b"\n"


def journal_path(volume: Path) -> Path:
    """Return the path of a volume's marks while it is written."""
    return volume.with_name(f"{volume.name}.journal")


def read_marks(path: Path) -> list[Mark]:
    """Read the marks that were written whole, in order; none without a file."""
    marks: list[Mark] = []
    if path.exists():
        for line in path.read_bytes().splitlines(keepends=True):
            mark = _parse(line)
            if mark is None:
                break
            marks.append(mark)
    return marks


def _parse(line: bytes) -> Mark | None:
    if not line.endswith(b"\n"):
        return None
    try:
        values: dict[str, Any] = json.loads(line)
        sums = values.pop("sums")
        sums.update(totals=tuple(sums["totals"]), squares=tuple(sums["squares"]))
        return Mark(**values, sums=Sums(**sums))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None  # a crash of the machine, not of the program, may leave anything


_LARGEST_SIDE = (1 << 16) - 1  # of the index's 16-bit words; more is "unknown"


class VolumePart:
    """The files of one volume in the hidden folder of a pack.

    A block counts as written when its mark is in the journal and its bytes have the
    mark's CRC. Everything after the last such block is written again. `memory` is one
    block, used while the part is open.
    """

    def __init__(self, volume: Path, level: int, memory: npt.NDArray[np.uint8]) -> None:
        assert len(memory) == BLOCK_BYTES
        self.volume = volume
        self._level = level
        self._memory = memory
        self._marks: list[Mark] = []
        self._rejects = 0
        self._files = ExitStack()

    def __enter__(self) -> Self:
        self._marks = self._whole_marks()
        last = self.last
        self._rejects = last.rejects
        marked = sum(len(mark.line()) for mark in self._marks)
        self._blocks = self._open(self.volume, (1 + len(self._marks)) * BLOCK_BYTES)
        self._manifest = self._open(manifest_path(self.volume), last.manifest_bytes)
        self._rejected = self._open(rejects_path(self.volume), last.rejects_bytes)
        self._journal = self._open(journal_path(self.volume), marked)
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    @property
    def last(self) -> Mark:
        """Return the state after the last whole block."""
        return self._marks[-1] if self._marks else Mark()

    @property
    def counts(self) -> tuple[int, ...]:
        """Return the number of samples in each block so far."""
        return tuple(mark.count for mark in self._marks)

    @property
    def crcs(self) -> tuple[int, ...]:
        """Return the CRC-32 of each block so far."""
        return tuple(mark.crc for mark in self._marks)

    @property
    def rejects(self) -> int:
        """Return the number of images that were left out so far."""
        return self._rejects

    def read_rejects(self) -> list[Reject]:
        """Read the list of the images that were left out so far."""
        text = rejects_path(self.volume).read_text(encoding="ascii")
        return [Reject(**json.loads(line)) for line in text.splitlines()]

    def append(self, cut: Cut) -> None:
        """Write one block with its manifest lines, rejects and mark.

        Raises:
            PackError: The block holds more images than its index takes.
            OSError: The disk is full, or fails.
        """
        for reject in cut.rejects:
            self._rejected.write(json.dumps(asdict(reject)).encode("ascii") + b"\n")
        self._rejected.flush()
        self._rejects += len(cut.rejects)
        if not cut.images:
            return
        crc = self._write_block(cut.images)
        first = self.last.samples
        for number, one in enumerate(cut.images, first):
            self._manifest.write(_entry(number, one).line().encode("ascii"))
        self._manifest.flush()
        mark = self._mark(cut, crc)
        self._journal.write(mark.line())
        self._journal.flush()
        self._marks.append(mark)

    def finish(self, header: Header, about: About | None) -> None:
        """Write the header and, with `about`, the extension index; all is on the disk.

        The part is closed by then.
        """
        raw = header.to_bytes()
        with self.volume.open("r+b") as file:
            file.truncate(header.total_bytes)
            if about is not None:
                file.seek(EXTENSION_OFFSET)
                file.write(self._extension(crc32(raw), about).to_bytes())
            file.seek(0)
            file.write(raw)
        listed = rejects_path(self.volume)
        if not self._rejects:
            listed.unlink(missing_ok=True)
        for path in (self.volume, manifest_path(self.volume), listed):
            _sync(path)

    def _write_block(self, images: Sequence[Prepared]) -> int:
        block = len(self._marks)
        if len(images) > BLOCK_CAPACITY[self._level]:
            raise PackError(
                f"upstream puts {len(images)} images into block {block} of {self.volume.name}, "
                f"whose index takes {BLOCK_CAPACITY[self._level]}: such a file cannot be read. "
                "Pack without compat."
            )
        used = fill_block(
            self._memory,
            block=block,
            level=self._level,
            samples=[one.encoded.data for one in images],
            labels=[one.image.label for one in images],
        )
        self._blocks.seek((1 + block) * BLOCK_BYTES)
        # The zeros behind are a hole, which reads as zeros and takes no space.
        self._blocks.write(self._memory[:used].data)
        self._blocks.flush()
        if hasattr(os, "posix_fadvise"):  # only a hint: let it go to the disk meanwhile
            with contextlib.suppress(OSError):
                place = (1 + block) * BLOCK_BYTES
                os.posix_fadvise(self._blocks.fileno(), place, used, os.POSIX_FADV_DONTNEED)
        return crc32(self._memory.data)

    def _mark(self, cut: Cut, crc: int) -> Mark:
        last = self.last
        areas = [one.encoded.width * one.encoded.height for one in cut.images]
        return Mark(
            position=cut.position,
            count=len(cut.images),
            crc=crc,
            samples=last.samples + len(cut.images),
            source_bytes=last.source_bytes + sum(one.image.stored.size for one in cut.images),
            max_area=max(last.max_area, *areas),
            manifest_bytes=self._manifest.tell(),
            rejects_bytes=self._rejected.tell(),
            rejects=self._rejects,
            sums=sum((one.sums for one in cut.images), last.sums),
        )

    def _extension(self, header_crc: int, about: About) -> Extension:
        samples = self.last.samples
        sizes = np.zeros((2, samples), np.uint16)
        for number, entry in enumerate(read_manifest(manifest_path(self.volume))):
            if max(entry.width, entry.height) <= _LARGEST_SIDE:
                sizes[:, number] = entry.width, entry.height
        assert fits(about, len(self._marks), 0)  # more would lie over the first block
        has_room = fits(about, len(self._marks), samples)
        return Extension(
            header_crc=header_crc,
            about=about,
            block_crcs=np.array(self.crcs, np.uint32),
            counts=np.array(self.counts, np.uint32),
            widths=sizes[0] if has_room else None,
            heights=sizes[1] if has_room else None,
        )

    def _whole_marks(self) -> list[Mark]:
        marks = read_marks(journal_path(self.volume))
        if not marks or not self.volume.exists():
            return []
        whole: list[Mark] = []
        with self.volume.open("rb") as file:
            for block, mark in enumerate(marks):
                if self._crc_of(file, block) != mark.crc:
                    break
                whole.append(mark)
        lengths = [
            path.stat().st_size if path.exists() else 0
            for path in (manifest_path(self.volume), rejects_path(self.volume))
        ]
        return [
            mark
            for mark in whole
            if mark.manifest_bytes <= lengths[0] and mark.rejects_bytes <= lengths[1]
        ]

    def _crc_of(self, file: BinaryIO, block: int) -> int:
        file.seek((1 + block) * BLOCK_BYTES)
        got = file.readinto(self._memory.data)  # type: ignore[attr-defined]  # a binary file has it
        self._memory[got:] = 0  # behind the last block's bytes the file may end
        return crc32(self._memory.data)

    def _open(self, path: Path, size: int) -> BinaryIO:
        """Open the file with its first `size` bytes, to write on from there."""
        file = self._files.enter_context(path.open("r+b" if path.exists() else "w+b"))
        file.truncate(size)
        file.seek(size)
        return file


def _entry(number: int, one: Prepared) -> Entry:
    return Entry(
        id=number,
        name=one.image.name,
        label=one.image.label,
        bytes=one.image.stored.size,
        sha256=one.sha256,
        crc32=one.crc32,
        width=one.encoded.width,
        height=one.encoded.height,
    )


def _sync(path: Path) -> None:
    if path.exists():
        with path.open("rb") as file:
            os.fsync(file.fileno())
