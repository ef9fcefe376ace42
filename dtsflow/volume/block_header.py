"""The header of a block volume, from what was packed into it."""

from collections.abc import Sequence
from dataclasses import dataclass

from dtsflow.volume.format import BLOCK_BYTES, BLOCK_HEADER_BYTES, SAMPLE_ALIGN, Kind
from dtsflow.volume.header import Header


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a header says that the blocks themselves do not tell.

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
    """The header of a volume whose blocks hold `counts` samples and have this CRC."""
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
