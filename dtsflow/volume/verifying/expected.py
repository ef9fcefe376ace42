"""What the header of a block volume must be, as its blocks tell."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dtsflow.volume.format import (
    BLOCK_BYTES,
    BLOCK_HEADER_BYTES,
    BLOCK_MAGIC,
    MAGIC,
    MAJOR,
    SAMPLE_ALIGN,
    Kind,
)
from dtsflow.volume.verifying.blocks import BlockFacts
from dtsflow.volume.verifying.fields import patched, read_fields


@dataclass(frozen=True, slots=True)
class Shape:
    """What a file is taken to be: blocks of one level."""

    level: int
    num_blocks: int


def likely_shape(raw: bytes, size: int, magics: Sequence[bytes]) -> Shape:
    """What a header that nothing proves and the file behind it most likely are.

    A header says several times how many blocks there are, and the size of an uncut file
    says it too: what most of them say is taken. `magics` are the first words of some
    blocks; where none is known, the header's level is taken.
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
    """The header `raw` with its right value in every field that has only one.

    `facts` are of all blocks, each found well laid out; without any, the fields that
    depend on them are kept. Level 0 of an upstream file holds the sources unchanged, so
    that it tells the ratio to them too. The checksum is never changed.
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
