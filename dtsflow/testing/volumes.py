"""Tiny real volumes in one call."""

import io
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from dtsflow.volume.format.header import SMALL_AREA_BYTES, SUFFIX, Facts, Kind
from dtsflow.volume.format.pixel_file import SMALL_SETS, small_header
from dtsflow.volume.format.writer import write_volume

BlockSamples = Sequence[tuple[bytes, int]]  # of one block: each sample's bytes and label
Part = tuple[int, int, int]  # volume id, volumes of the set, blocks of the set


def jpeg(width: int = 32, height: int = 24, *, seed: int = 0) -> bytes:
    """Make a small valid JPEG, smooth with some noise, different for each seed."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (4, 4, 3), np.uint8)
    image = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    noise = rng.integers(0, 16, (height, width, 3), np.uint8)
    stored = io.BytesIO()
    Image.fromarray(np.asarray(image) // 2 + 48 + noise).save(stored, "JPEG", quality=90)
    return stored.getvalue()


def damage(path: Path, offset: int, data: bytes) -> None:
    """Overwrite the bytes of a file from `offset` on; its size stays."""
    assert offset + len(data) <= path.stat().st_size
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def write_block_volume(
    path: Path,
    blocks: Sequence[BlockSamples],
    *,
    level: int = 0,
    is_training: bool = True,
    part: Part | None = None,
) -> Path:
    """Write a volume of these blocks; samples may be any bytes, blocks may be empty.

    On disk it takes the samples' bytes only: the rest are holes. `part` makes it one
    volume of a set; see `write_block_set`.
    """
    volume_id, num_volumes, total_blocks = part or (0, 1, 0)
    samples = [sample for block in blocks for sample in block]
    facts = Facts(
        level=level,
        is_training=is_training,
        num_blocks=len(blocks),
        num_classes=1 + max((label for _, label in samples), default=0),
        max_pic_area=0,
        source_bytes=sum(len(data) for data, _ in samples),
        volume_id=volume_id,
        num_volumes=num_volumes,
        total_blocks=total_blocks,
    )
    parted = (([data for data, _ in block], [label for _, label in block]) for block in blocks)
    write_volume(path, facts, parted)
    return path


def write_block_set(
    folder: Path,
    name: str,
    volumes: Sequence[Sequence[BlockSamples]],
    *,
    level: int = 0,
    is_training: bool = True,
) -> list[Path]:
    """Write a set of several volumes, `NAME-00001-of-00003.dts` and so on."""
    total_blocks = sum(len(blocks) for blocks in volumes)
    return [
        write_block_volume(
            folder / f"{name}-{k + 1:05d}-of-{len(volumes):05d}{SUFFIX}",
            blocks,
            level=level,
            is_training=is_training,
            part=(k, len(volumes), total_blocks),
        )
        for k, blocks in enumerate(volumes)
    ]


def write_small_set(
    path: Path, kind: Kind, samples: int, *, seed: int = 0, claimed: int | None = None
) -> Path:
    """Write an MNIST or CIFAR file as the exporter does, quirks included.

    Labels and pixels are drawn from `seed`. `claimed` is the number of samples that the
    header gives instead of the true one.
    """
    layout = SMALL_SETS[kind]
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(layout.class_names), samples, np.uint8)
    pixels = rng.integers(0, 256, samples * layout.sample_bytes, np.uint8)
    payload = labels.tobytes() + pixels.tobytes()
    count = samples if claimed is None else claimed
    crc = zlib.crc32(payload)
    header = small_header(kind, count, is_training=False, level=3, crc=crc)
    path.write_bytes(header.to_bytes().ljust(SMALL_AREA_BYTES, b"\0") + payload)
    return path
