"""The indexes in front of many blocks, read without the samples behind them."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from dtsflow.volume.block import BlockIndex
from dtsflow.volume.exact_read import opened, read_bytes
from dtsflow.volume.volume_set import BlockSpan, VolumeSet


def read_indexes(
    volumes: VolumeSet, blocks: Iterable[int]
) -> Iterator[tuple[BlockSpan, BlockIndex]]:
    """Read and check the index of each block, with one open file at a time.

    Raises:
        BlockError: The index of a block is damaged.
        VolumeError: A file cannot be read.
    """
    spans = ((volumes.span(block), block) for block in blocks)
    for path, group in groupby(spans, key=lambda one: one[0].path):
        with opened(path) as descriptor:
            for span, block in group:
                size = volumes.index_bytes(block)
                front = read_bytes(descriptor, size, span.offset, path)
                yield span, volumes.index(block, front)
