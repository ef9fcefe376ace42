"""The labels of a whole data set; of volumes, from their block indexes."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import numpy.typing as npt

from dtsflow.volume.data_set import DataSet
from dtsflow.volume.file import SCAN_THREADS
from dtsflow.volume.indexes import read_indexes
from dtsflow.volume.mixed_set import MixedSet
from dtsflow.volume.volume_set import VolumeSet

Labels = npt.NDArray[np.int32]

_TURN_BLOCKS = 64  # blocks whose index one thread reads with one descriptor


def read_labels(data: DataSet) -> Labels:
    """The label of every sample, by its id; no sample is read.

    Raises:
        BlockError: The index of a block is damaged.
        VolumeError: A file cannot be read.
    """
    if data.known_labels is not None:
        return data.known_labels
    if isinstance(data, MixedSet):
        return np.concatenate([read_labels(source) for source in data.sources])
    assert isinstance(data, VolumeSet)
    return _read(data)


def _read(volumes: VolumeSet) -> Labels:
    filled = np.flatnonzero(volumes.counts).tolist()
    turns = [filled[first : first + _TURN_BLOCKS] for first in range(0, len(filled), _TURN_BLOCKS)]
    with ThreadPoolExecutor(max(1, min(SCAN_THREADS, len(turns)))) as pool:
        parts = list(pool.map(partial(_labels, volumes), turns))
    return np.concatenate([np.empty(0, np.int32), *parts])


def _labels(volumes: VolumeSet, blocks: list[int]) -> Labels:
    return np.concatenate([index.labels for _, index in read_indexes(volumes, blocks)])
