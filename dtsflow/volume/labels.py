"""The labels of a whole data set, from the index in front of every block."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby

import numpy as np
import numpy.typing as npt

from dtsflow.volume.exact_read import opened, read_bytes
from dtsflow.volume.file import SCAN_THREADS
from dtsflow.volume.volume_set import VolumeSet

Labels = npt.NDArray[np.int32]

_TURN_BLOCKS = 64  # blocks whose index one thread reads with one descriptor


def read_labels(volumes: VolumeSet) -> Labels:
    """The label of every sample, in volume order; no sample is read.

    Raises:
        BlockError: The index of a block is damaged.
        VolumeError: A file cannot be read.
    """
    filled = np.flatnonzero(volumes.counts).tolist()
    turns = [filled[first : first + _TURN_BLOCKS] for first in range(0, len(filled), _TURN_BLOCKS)]
    with ThreadPoolExecutor(max(1, min(SCAN_THREADS, len(turns)))) as pool:
        parts = list(pool.map(partial(_labels, volumes), turns))
    return np.concatenate([np.empty(0, np.int32), *parts])


def _labels(volumes: VolumeSet, blocks: list[int]) -> Labels:
    return np.concatenate(list(_block_labels(volumes, blocks)))


def _block_labels(volumes: VolumeSet, blocks: list[int]) -> Iterator[Labels]:
    spans = ((volumes.span(block), block) for block in blocks)
    for path, group in groupby(spans, key=lambda one: one[0].path):
        with opened(path) as descriptor:
            for span, block in group:
                size = volumes.index_bytes(block)
                front = read_bytes(descriptor, size, span.offset, path)
                yield volumes.index(block, front).labels
