"""A block volume as it is on disk, damaged or not.

The words of a header are compared byte by byte with those that the blocks require.
`HeaderArea` is the first 16 MiB of the volume: header, extension index, zeros.
"""

import os
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dtsflow.errors import HeaderError
from dtsflow.volume.format.extension import (
    EXTENSION_MAGIC,
    EXTENSION_OFFSET,
    PREFIX_BYTES,
    Extension,
    extension_bytes,
)
from dtsflow.volume.format.header import (
    BLOCK_BYTES,
    BLOCK_HEADER_BYTES,
    BLOCK_MAGIC,
    HEADER_BYTES,
    LEVELS,
    MAGIC,
    MAJOR,
    RECORD,
    SAMPLE_ALIGN,
    Kind,
)
from dtsflow.volume.format.io import combine_blocks, opened, read_bytes, read_into
from dtsflow.volume.verifying.blocks import BlockFacts, Means, check_blocks
from dtsflow.volume.verifying.report import Problem, told


def read_fields(raw: bytes) -> dict[str, Any]:
    """Read each field of a header, however damaged; texts are bytes, vectors tuples."""
    record = np.frombuffer(raw, RECORD, 1)[0]
    return {name: _plain(record[name]) for name in RECORD.names or ()}


def patched(raw: bytes, values: Mapping[str, Any]) -> bytes:
    """Return the header `raw` with other values in some of its fields."""
    record = np.frombuffer(raw, RECORD, 1).copy()
    for name, value in values.items():
        record[name] = value
    return record.tobytes()


def differences(raw: bytes, wanted: bytes) -> tuple[str, ...]:
    """Name each field in which the header `raw` is not `wanted`, with both values."""
    found, right = read_fields(raw), read_fields(wanted)
    return tuple(
        f"{name} is {found[name]!r}, it must be {right[name]!r}"
        for name, place in _PLACES.items()
        # By bytes: -0.0 equals 0.0, and a text hides the zeros at its end.
        if raw[place] != wanted[place]
    )


def strange(raw: bytes) -> tuple[str, ...]:
    """Name the fields that may have several values, and have none of them."""
    fields = read_fields(raw)
    allowed = {"is_training": (0, 1), "val_set_prep": (0, 1), "compress_level": (0, 1, 2, 3)}
    return tuple(
        f"{name} is {fields[name]}, it must be one of {', '.join(map(str, values))}"
        for name, values in allowed.items()
        if fields[name] not in values
    )


def _places() -> dict[str, slice]:
    starts = {name: RECORD.fields[name][1] for name in RECORD.names or ()}  # type: ignore[index]  # a record has fields
    ends = [*list(starts.values())[1:], HEADER_BYTES]
    return {
        name: slice(start, end) for (name, start), end in zip(starts.items(), ends, strict=True)
    }


def _plain(value: Any) -> Any:
    return tuple(value.tolist()) if isinstance(value, np.ndarray) else value.item()


_PLACES = _places()


@dataclass(frozen=True, slots=True)
class Shape:
    """The assumed form of a file: blocks of one level."""

    level: int
    num_blocks: int


def likely_shape(raw: bytes, size: int, magics: Sequence[bytes]) -> Shape:
    """Return the likeliest shape for an unproven header and the file behind it.

    A header gives the number of blocks several times, and so does the size of an uncut
    file: the number that most of them give is taken. `magics` are the first words of
    some blocks; if none is known, the header's level is taken.
    """
    fields = read_fields(raw)
    votes = [
        fields["num_blocks"],
        fields["total_bytes"] // BLOCK_BYTES - 1,
        fields["block_bytes"] // BLOCK_BYTES,
        fields["total_blocks"] if fields["num_volumes"] == 1 else 0,
        size // BLOCK_BYTES - 1 if size % BLOCK_BYTES == 0 else 0,
    ]
    begun = max(-(-size // BLOCK_BYTES) - 1, 0)
    num_blocks = _most([vote for vote in votes if vote > 0], begun)
    levels = [BLOCK_MAGIC.index(magic) for magic in magics if magic in BLOCK_MAGIC]
    said = fields["compress_level"]
    return Shape(_most(levels, said if said < len(BLOCK_MAGIC) else 0), num_blocks)


def right_header(
    raw: bytes, shape: Shape, facts: Sequence[BlockFacts], *, is_upstream: bool
) -> bytes:
    """Return the header `raw` with each field set that has only one right value.

    `facts` are of all blocks, each found well laid out; without any, the fields that
    depend on them are kept. Level 0 of an upstream file holds the sources unchanged, so
    it gives the ratio to them too. The checksum is never changed.
    """
    fields = read_fields(raw)
    size = (1 + shape.num_blocks) * BLOCK_BYTES
    values: dict[str, Any] = {
        "magic": MAGIC,
        "version": (MAJOR, 0, 0, 0),
        "dataset_type": Kind.IMAGENET.value.encode(),
        "compress_level": shape.level,
        "tensor_layout": b"NHWC",
        "image_width": 0,
        "image_height": 0,
        "num_channels": 3,
        "color_type": b" RGB",
        "num_blocks": shape.num_blocks,
        "total_bytes": size,
        "header_bytes": BLOCK_BYTES,
        "block_bytes": size - BLOCK_BYTES,
        "block_size": BLOCK_BYTES,
        "block_header_size": BLOCK_HEADER_BYTES[shape.level],
        "pic_alignment": SAMPLE_ALIGN,
        "normalize_mean": (0.0, 0.0, 0.0),
        "normalize_std": (0.0, 0.0, 0.0),
    }
    # A set of several volumes has more blocks than any one of them.
    if fields["num_volumes"] == 1 or fields["total_blocks"] == shape.num_blocks:
        values.update(num_volumes=1, volume_id=0, total_blocks=shape.num_blocks)
    if facts:
        values.update(_counted(fields, shape, facts))
    if facts and is_upstream and shape.level == 0:
        values["compression_ratio"] = size / max(sum(one.sample_bytes for one in facts), 1)
    return patched(raw, values)


def _counted(fields: dict[str, Any], shape: Shape, facts: Sequence[BlockFacts]) -> dict[str, Any]:
    counts = [one.count for one in facts]
    values: dict[str, Any] = {"num_samples": sum(counts)}
    # Above level 0 the exporter leaves out the last block, and dtsflow does not.
    hints = {max(counts)} if shape.level == 0 else {max(counts), max(counts[:-1], default=0)}
    if fields["max_pic_per_block"] not in hints:
        values["max_pic_per_block"] = max(counts)
    return values


def _most(votes: list[int], otherwise: int) -> int:
    return Counter(votes).most_common(1)[0][0] if votes else otherwise


Span = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class HeaderArea:
    """The header area as it is; nothing in it needs to be right.

    `raw` are the 144 bytes of the header. `index_damage` says what is wrong with the
    index; then `extension` is None, as it is in a volume without one. `stray` are spans
    of bytes that must be zero, from the first to the last that is not.
    """

    path: Path
    size: int
    raw: bytes
    extension: Extension | None
    index_damage: str
    stray: tuple[Span, ...]

    @property
    def proven(self) -> bytes | None:
        """Return the header's 144 bytes as written, if the index proves them."""
        if self.extension is None:
            return None
        copies = (self.raw, self.extension.about.header)
        right = self.extension.header_crc
        return next((c for c in copies if len(c) == HEADER_BYTES and zlib.crc32(c) == right), None)

    def problems(self) -> list[Problem]:
        """Find what is wrong with the index and the zeros, not with the header."""
        found = [
            Problem(self.path, "header area", None, None, _stray_text(span)) for span in self.stray
        ]
        if self.index_damage:
            found.append(Problem(self.path, "index", None, None, self.index_damage))
        elif self.extension is not None and self.proven != self.extension.about.header:
            what = "its copy of the header is not the header that it has the CRC-32 of"
            found.append(Problem(self.path, "index", None, None, what))
        return found


def read_header_area(path: Path) -> HeaderArea:
    """Read the header area of a block volume, which may be cut short.

    Raises:
        VolumeError: The file cannot be read.
    """
    with opened(path) as descriptor:
        size = os.fstat(descriptor).st_size
        area = np.zeros(BLOCK_BYTES, np.uint8)
        there = min(size, BLOCK_BYTES)
        read_into(descriptor, area[:there], 0, path)
    raw = area[:HEADER_BYTES].tobytes()
    behind = area[EXTENSION_OFFSET:]
    stray = _nonzero(area, HEADER_BYTES, EXTENSION_OFFSET)
    if not _has_index(behind):
        return HeaderArea(path, size, raw, None, "", stray + _nonzero(area, EXTENSION_OFFSET, None))
    try:
        total = extension_bytes(behind[:PREFIX_BYTES].tobytes(), path)
        extension = Extension.parse(behind[:total].tobytes(), path)
    except HeaderError as error:
        # Where a damaged index ends is not known, so what lies behind it is not either.
        return HeaderArea(path, size, raw, None, told(error, path), stray)
    stray += _nonzero(area, EXTENSION_OFFSET + total, None)
    return HeaderArea(path, size, raw, extension, "", stray)


def _has_index(behind: npt.NDArray[np.uint8]) -> bool:
    """Tell whether an index lies there, damaged or not: its magic or all else fits."""
    if behind[:4].tobytes() == EXTENSION_MAGIC:
        return True
    return bool(behind[:PREFIX_BYTES].any() and behind[PREFIX_BYTES:].any())


def _nonzero(area: npt.NDArray[np.uint8], start: int, stop: int | None) -> tuple[Span, ...]:
    part = area[start:stop]
    if not part.any():
        return ()
    places = np.flatnonzero(part)
    return ((start + int(places[0]), start + int(places[-1])),)


def _stray_text(span: Span) -> str:
    first, last = span
    where = f"byte {first} is" if first == last else f"bytes between {first} and {last} are"
    return f"{where} not zero, as all but the header and the index must be"


_LOOKED_AT = 64  # blocks whose magic is asked for the level


@dataclass(frozen=True, eq=False)
class BlockVolume:
    """A block volume as it is on disk, with what its parts say about each other.

    `facts` are of the blocks that are there in full: the first ones of `shape`.
    """

    area: HeaderArea
    shape: Shape
    facts: tuple[BlockFacts, ...]

    @property
    def path(self) -> Path:
        """Return the path of the file."""
        return self.area.path

    @property
    def is_interrupted(self) -> bool:
        """Tell whether the exporter stopped before it wrote the header."""
        return self.area.proven is None and not any(self.area.raw[8:])

    @property
    def is_whole(self) -> bool:
        """Tell whether every block is there and readable, and nothing else is there."""
        return self.area.size == (1 + self.shape.num_blocks) * BLOCK_BYTES and all(
            one.crc is not None for one in self.facts
        )

    @cached_property
    def right_header(self) -> bytes:
        """Return the right header's bytes: proven by the index, else the likeliest."""
        sound = self.is_whole and not any(one.findings for one in self.facts)
        return self.area.proven or right_header(
            self.area.raw,
            self.shape,
            self.facts if sound else (),
            is_upstream=self.area.extension is None and not self.area.index_damage,
        )

    @cached_property
    def crc(self) -> int | None:
        """Return the CRC-32 of all blocks as they are; None if not whole."""
        if not self.is_whole:
            return None
        return combine_blocks((one.crc or 0 for one in self.facts), BLOCK_BYTES)

    @property
    def header_crc_code(self) -> int:
        """Return the CRC-32 of all blocks that the header says."""
        return int(read_fields(self.right_header)["crc_code"])

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Return samples per block: of the index, else of the blocks that are there."""
        if self.area.extension is not None:
            return tuple(self.area.extension.counts.tolist())
        return tuple(one.count for one in self.facts)

    @property
    def first_ids(self) -> tuple[int, ...]:
        """Return the id in the file of each block's first sample."""
        counts = np.array(self.counts, np.int64)
        return tuple((np.cumsum(counts) - counts).tolist())

    def wanted_crc(self, block: int) -> int | None:
        """Return the CRC-32 that the index has for a block; None if it has none."""
        crcs = self.area.extension.block_crcs if self.area.extension is not None else ()
        return int(crcs[block]) if block < len(crcs) else None

    def is_right(self, one: BlockFacts) -> bool:
        """Tell whether a block is as it was written, as far as its own checks tell."""
        wanted = self.wanted_crc(one.block)
        return not one.findings if wanted is None else one.crc == wanted

    def is_moved(self, one: BlockFacts) -> bool:
        """Tell whether a block lies whole at the wrong index."""
        return (
            one.number != one.block
            and one.crc is not None
            and (one.crc == self.wanted_crc(one.number))
        )


def read_block_volume(area: HeaderArea, means: Means) -> BlockVolume:
    """Read all blocks that a file has, whatever its header says.

    Raises:
        VolumeError: The file cannot be opened.
    """
    raw = area.proven or area.raw
    shape = likely_shape(raw, area.size, _magics(area.path, area.size))
    if area.proven is not None:
        fields = read_fields(area.proven)
        level = fields["compress_level"] if fields["compress_level"] in LEVELS else shape.level
        shape = Shape(level, fields["num_blocks"])
    blocks = min(shape.num_blocks, max(area.size // BLOCK_BYTES - 1, 0))
    facts = check_blocks(area.path, blocks, shape.level, means)
    return BlockVolume(area, shape, tuple(facts))


def _magics(path: Path, size: int) -> list[bytes]:
    blocks = max(size // BLOCK_BYTES - 1, 0)
    step = max(blocks // _LOOKED_AT, 1)
    with opened(path) as descriptor:
        return [
            read_bytes(descriptor, 4, (1 + block) * BLOCK_BYTES, path).tobytes()
            for block in range(0, blocks, step)
        ]
