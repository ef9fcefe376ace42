"""An MNIST or CIFAR file, checked in all its parts."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dtsflow.volume.format.header import HEADER_BYTES, SMALL_AREA_BYTES, Kind
from dtsflow.volume.format.io import opened, read_bytes
from dtsflow.volume.format.pixel_file import (
    SMALL_SETS,
    SmallSet,
    most_samples,
    payload_crc,
    small_header,
)
from dtsflow.volume.verifying.block_volume import differences, patched, read_fields, strange
from dtsflow.volume.verifying.report import Part, Problem

_LISTED = 8  # wrong labels that are named


@dataclass(frozen=True, slots=True)
class PixelFile:
    """A pixel set as it is on disk; `kind` is what it most likely is.

    `raw` is the header, `area` all 256 bytes in front, `payload` how many follow and
    `crc` their CRC-32. `claimed` is the number of samples that most fields of the
    header give.
    """

    path: Path
    kind: Kind
    area: bytes
    payload: int
    crc: int
    claimed: int

    @property
    def raw(self) -> bytes:
        """Return the header's 144 bytes."""
        return self.area[:HEADER_BYTES]

    @property
    def layout(self) -> SmallSet:
        """Return the image form and the classes of the kind."""
        return SMALL_SETS[self.kind]

    @property
    def samples(self) -> int:
        """Return the number of whole records that are there."""
        return min(self.claimed, self.payload // self.layout.record_bytes)

    @property
    def crc_code(self) -> int:
        """Return the checksum that the header says."""
        return int(read_fields(self.raw)["crc_code"])

    @property
    def right_header(self) -> bytes:
        """Return the header with each field set that has only one right value.

        The checksum is never changed.
        """
        return right_small_header(self.raw, self.kind, self.claimed)


def read_pixel_file(path: Path, kind: Kind, size: int) -> PixelFile:
    """Read a pixel set, whatever its header says.

    Raises:
        VolumeError: The file cannot be read.
    """
    there = min(size, SMALL_AREA_BYTES)
    with opened(path) as descriptor:
        area = read_bytes(descriptor, there, 0, path).tobytes().ljust(SMALL_AREA_BYTES, b"\0")
    payload = max(size - SMALL_AREA_BYTES, 0)
    claimed = _likely_samples(area[:HEADER_BYTES], kind, payload)
    return PixelFile(path, kind, area, payload, payload_crc(path, size), claimed)


def pixel_problems(file: PixelFile) -> tuple[list[Problem], list[str]]:
    """Find everything wrong with a pixel set, and notes."""
    notes = []
    problems = [
        _problem(file, "header", what)
        for what in (*differences(file.raw, file.right_header), *strange(file.raw))
    ]
    stray = np.flatnonzero(np.frombuffer(file.area, np.uint8)[HEADER_BYTES:])
    if len(stray):
        first, last = (HEADER_BYTES + int(place) for place in (stray[0], stray[-1]))
        what = f"bytes {first} to {last} are not all zero, as they must be"
        problems.append(_problem(file, "header area", what))
    record = file.layout.record_bytes
    wanted = file.claimed * record
    is_subset = (
        0 < file.payload < wanted and file.payload % record == 0 and file.crc == file.crc_code
    )
    if is_subset:
        notes.append(
            f"{file.path}: its header claims {file.claimed} samples; the {file.samples} that it "
            "has are right, so it is a subset"
        )
    elif file.payload != wanted:
        what = (
            f"after the header lie {file.payload} bytes, its {file.claimed} samples take "
            f"{wanted}: it is cut short, or something was appended"
        )
        problems.append(_problem(file, "file", what))
    return problems + _content(file) + _labels(file), notes


def right_small_header(raw: bytes, kind: Kind, samples: int) -> bytes:
    """Return the header `raw` with every value that a pixel set must have."""
    fields = read_fields(raw)
    kept = ("is_training", "compress_level", "val_set_prep", "crc_code")
    right = small_header(kind, min(samples, most_samples(kind)), is_training=False, level=0, crc=0)
    return patched(right.to_bytes(), {name: fields[name] for name in kept})


def _likely_samples(raw: bytes, kind: Kind, payload: int) -> int:
    """Return the number of samples that most fields give; damage is outvoted."""
    fields = read_fields(raw)
    said = small_header(kind, 1, is_training=False, level=0, crc=0).block_bytes
    votes = [
        fields["num_samples"],
        fields["max_pic_per_block"],
        fields["block_bytes"] / said,
        fields["block_size"] / said,
        (fields["total_bytes"] - SMALL_AREA_BYTES) / said,
        payload / SMALL_SETS[kind].record_bytes,
    ]
    likely = [int(vote) for vote in votes if vote == int(vote) and 0 <= vote <= most_samples(kind)]
    return Counter(likely).most_common(1)[0][0] if likely else 0


def _content(file: PixelFile) -> list[Problem]:
    if file.crc == file.crc_code:
        return []
    if (file.crc ^ file.crc_code).bit_count() == 1:
        # No single wrong bit in less than 512 MiB makes two such CRC-32.
        what = (
            f"crc_code is {file.crc_code:#010x}, the data have {file.crc:#010x}: the word has "
            "a wrong bit"
        )
        return [_problem(file, "header", what)]
    what = (
        f"labels and pixels have the CRC-32 {file.crc:#010x}, the header says "
        f"{file.crc_code:#010x}: they are damaged, or crc_code is"
    )
    return [_problem(file, "file", what)]


def _labels(file: PixelFile) -> list[Problem]:
    """Find labels that are not a class."""
    with opened(file.path) as descriptor:
        labels = read_bytes(descriptor, file.samples, SMALL_AREA_BYTES, file.path)
    classes = len(file.layout.class_names)
    return [
        Problem(
            file.path, "file", None, row, f"its label is {labels[row]}, there are {classes} classes"
        )
        for row in np.flatnonzero(labels >= classes)[:_LISTED].tolist()
    ]


def _problem(file: PixelFile, part: Part, what: str) -> Problem:
    return Problem(file.path, part, None, None, what)
