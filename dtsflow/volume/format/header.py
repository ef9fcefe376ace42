"""The 144-byte header of a volume, and the numbers and names of DTS version 3.

`block_header` makes the header of a block volume from what was packed into it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from dtsflow.errors import HeaderError

MAGIC = b".DTS"
MAJOR = 3  # a higher minor number only adds what an older reader may ignore
HEADER_BYTES = 144  # the struct; the area it lies in is larger
BLOCK_BYTES = 1 << 24  # one IO unit, and what the header area of a block volume takes
SMALL_AREA_BYTES = 256  # header area of MNIST and CIFAR files
SAMPLE_ALIGN = 64  # a cache line: samples start on it inside a block

LEVELS = (0, 1, 2, 3)
BLOCK_MAGIC = tuple(f"LV{level}B".encode() for level in LEVELS)
BLOCK_HEADER_BYTES = (4096, 16384, 16384, 16384)
BLOCK_ROOM = tuple(BLOCK_BYTES - size for size in BLOCK_HEADER_BYTES)  # bytes of samples
BLOCK_PREFIX_BYTES = 12  # magic, block id, count
ENTRY_BYTES = 12  # offset, size, label
# 340 at level 0, 1364 above: what fits the block header, whatever other readers allow.
BLOCK_CAPACITY = tuple((size - BLOCK_PREFIX_BYTES) // ENTRY_BYTES for size in BLOCK_HEADER_BYTES)
LARGEST_LABEL = (1 << 31) - 1  # written unsigned, read signed

SUFFIX = ".dts"


class Kind(Enum):
    """The kind of a file's content, as the header's type field without padding."""

    IMAGENET = "IMAGENET"
    MNIST = "MNIST"
    CIFAR10 = "CIFAR10"
    CIFAR100 = "CIFAR100"

    @property
    def in_blocks(self) -> bool:
        """Tell whether samples lie in 16 MiB blocks; else labels, then pixels."""
        return self is Kind.IMAGENET


def aligned(size: int) -> int:
    """Return the bytes that a sample of `size` bytes takes in a block."""
    return -(-size // SAMPLE_ALIGN) * SAMPLE_ALIGN


# Packed on purpose: the 64-bit words lie on multiples of 4, not of 8.
RECORD = np.dtype(
    [
        ("magic", "S4"),
        ("version", "u1", (4,)),
        ("dataset_type", "S8"),
        ("is_training", "<u4"),
        ("compress_level", "<u4"),
        ("val_set_prep", "<u4"),
        ("num_classes", "<u4"),
        ("tensor_layout", "S4"),
        ("image_width", "<u4"),
        ("image_height", "<u4"),
        ("num_channels", "<u4"),
        ("color_type", "S4"),
        ("num_samples", "<u4"),
        ("num_volumes", "<u4"),
        ("volume_id", "<u4"),
        ("total_blocks", "<u4"),
        ("num_blocks", "<u4"),
        ("total_bytes", "<u8"),
        ("header_bytes", "<u4"),
        ("block_bytes", "<u8"),
        ("block_size", "<u4"),
        ("block_header_size", "<u4"),
        ("pic_alignment", "<u4"),
        ("max_pic_area", "<u4"),
        ("max_pic_per_block", "<u4"),
        ("compression_ratio", "<f4"),
        ("normalize_mean", "<f4", (3,)),
        ("normalize_std", "<f4", (3,)),
        ("crc_code", "<u4"),
    ]
)
assert RECORD.itemsize == HEADER_BYTES

_KINDS = {kind.value.rjust(8).encode(): kind for kind in Kind}


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The fields of a volume's header, in the order of its bytes.

    Three words are hints that healthy files get wrong: `max_pic_area` and
    `max_pic_per_block`, and of MNIST every size but `num_channels`. Zero means and
    standard deviations mean "not given". `crc_code` covers the bytes after the header
    area, not the header.
    """

    version: tuple[int, ...] = (MAJOR, 0, 0, 0)
    dataset_type: Kind
    is_training: bool
    compress_level: int
    val_set_prep: int = 0
    num_classes: int
    tensor_layout: str = "NHWC"
    image_width: int = 0
    image_height: int = 0
    num_channels: int = 3
    color_type: str = " RGB"
    num_samples: int
    num_volumes: int = 1
    volume_id: int = 0
    total_blocks: int
    num_blocks: int
    total_bytes: int
    header_bytes: int
    block_bytes: int
    block_size: int
    block_header_size: int
    pic_alignment: int
    max_pic_area: int
    max_pic_per_block: int
    compression_ratio: float = 1.0
    normalize_mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    normalize_std: tuple[float, ...] = (0.0, 0.0, 0.0)
    crc_code: int

    @classmethod
    def parse(cls, raw: bytes, path: Path) -> "Header":
        """Read the header at the start of `raw`; `path` is named when it is refused.

        Only what says "a DTS file of this version, finished" is checked here. Whether
        the numbers fit together is checked by `check` in `volume.format.file`.

        Raises:
            HeaderError: Too short, wrong magic, another major version, an interrupted
                export, an unknown kind, or a flag that is neither 0 nor 1.
        """
        _check_start(raw, path)
        record = np.frombuffer(raw, RECORD, count=1)[0]
        kind = _KINDS.get(raw[8:16])
        if kind is None:
            raise HeaderError(
                f"{path}: the data set type is {raw[8:16]!r}; this version reads "
                f"{', '.join(known.value for known in Kind)}. The header is damaged or "
                "written by a newer program."
            )
        if record["is_training"] not in (0, 1):
            raise HeaderError(
                f"{path}: is_training is {record['is_training']}, it must be 0 or 1. "
                "The header is damaged: copy or export the file again."
            )
        values: dict[str, Any] = {name: _plain(record[name]) for name in RECORD.names or ()}
        del values["magic"]
        values.update(dataset_type=kind, is_training=bool(record["is_training"]))
        return cls(**values)

    def to_bytes(self) -> bytes:
        """Return the header as it is stored, 144 bytes."""
        record = np.zeros(1, RECORD)
        for field in fields(self):
            value = getattr(self, field.name)
            record[field.name] = value.encode("latin-1") if isinstance(value, str) else _raw(value)
        record["magic"] = MAGIC
        return record.tobytes()


def _check_start(raw: bytes, path: Path) -> None:
    if len(raw) < HEADER_BYTES:
        raise HeaderError(
            f"{path} has {len(raw)} bytes; a DTS header alone takes {HEADER_BYTES}. The "
            "file is cut short, or is no volume: copy or export it again."
        )
    if raw[:4] != MAGIC:
        raise HeaderError(
            f"{path} starts with {raw[:4]!r}, a DTS volume with {MAGIC!r}. It is another "
            "kind of file, or its start was overwritten."
        )
    if raw[4] != MAJOR:
        raise HeaderError(
            f"{path} is of DTS version {raw[4]}, this program reads version {MAJOR}. "
            f"Export it as version {MAJOR}, or use a dtsflow that reads {raw[4]}."
        )
    if not any(raw[8:HEADER_BYTES]):
        # The exporter writes magic and version first and everything else last.
        raise interrupted(path)


def interrupted(path: Path) -> HeaderError:
    """Make the error for a file whose exporter stopped before it wrote the header."""
    return HeaderError(
        f"{path} is an interrupted export: it has a DTS magic, but its header was never "
        "filled in. Nothing tells what it holds: delete it and export again."
    )


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, np.ndarray):
        return tuple(value.tolist())
    return value.item()


def _raw(value: Any) -> Any:
    return value.value.rjust(8).encode() if isinstance(value, Kind) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of a header that the blocks themselves do not hold.

    `volume_id` counts from 0; `total_blocks` of 0 means a set of this one volume.
    `source_bytes` are those of the original images, for the compression ratio.
    `max_pic_per_block` of None means the true one.
    """

    level: int
    is_training: bool
    num_blocks: int
    num_classes: int
    max_pic_area: int
    source_bytes: int
    volume_id: int = 0
    num_volumes: int = 1
    total_blocks: int = 0
    max_pic_per_block: int | None = None


def block_header(facts: Facts, counts: Sequence[int], crc: int) -> Header:
    """Make a volume's header; its blocks hold `counts` samples and have this CRC."""
    total_bytes = (1 + facts.num_blocks) * BLOCK_BYTES
    largest = facts.max_pic_per_block
    return Header(
        dataset_type=Kind.IMAGENET,
        is_training=facts.is_training,
        compress_level=facts.level,
        num_classes=facts.num_classes,
        num_samples=sum(counts),
        num_volumes=facts.num_volumes,
        volume_id=facts.volume_id,
        total_blocks=facts.total_blocks or facts.num_blocks,
        num_blocks=facts.num_blocks,
        total_bytes=total_bytes,
        header_bytes=BLOCK_BYTES,
        block_bytes=facts.num_blocks * BLOCK_BYTES,
        block_size=BLOCK_BYTES,
        block_header_size=BLOCK_HEADER_BYTES[facts.level],
        pic_alignment=SAMPLE_ALIGN,
        max_pic_area=facts.max_pic_area,
        max_pic_per_block=max(counts, default=0) if largest is None else largest,
        # Output over input with the header area, as upstream defines it.
        compression_ratio=total_bytes / max(facts.source_bytes, 1),
        crc_code=crc,
    )
