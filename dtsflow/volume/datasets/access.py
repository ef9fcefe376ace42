"""Single samples, whole blocks and all labels of a data set, read when asked for.

The labels of volumes are read from their block indexes.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Self

import numpy as np
import numpy.typing as npt

from dtsflow.errors import ClosedError
from dtsflow.memory.align import aligned_bytes
from dtsflow.volume.data_set import DataSet
from dtsflow.volume.datasets.mixed import MixedSet
from dtsflow.volume.datasets.scan import read_indexes, scan
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.block import BlockIndex
from dtsflow.volume.format.file import SCAN_THREADS
from dtsflow.volume.format.io import open_descriptor, read_bytes, read_into


@dataclass(frozen=True, slots=True)
class Sample:
    """One stored sample: the bytes of an image file, or raw HWC pixels."""

    data: memoryview
    label: int
    class_name: str
    sample_id: int


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One whole block in memory; `samples` are views of `memory`, nothing is copied.

    `memory` starts on a page and is the block exactly as on disk.
    """

    memory: npt.NDArray[np.uint8]
    index: BlockIndex
    first_id: int

    @property
    def labels(self) -> npt.NDArray[np.int32]:
        """Return a label per sample."""
        return self.index.labels

    @property
    def samples(self) -> tuple[memoryview, ...]:
        """Return the bytes of each sample."""
        whole = self.memory.data
        ends = self.index.offsets + self.index.sizes
        return tuple(
            whole[start:end]
            for start, end in zip(self.index.offsets.tolist(), ends.tolist(), strict=True)
        )


class OpenVolumes:
    """A data set whose samples can be taken by number, as from a list.

    Each sample is one read. A block's index is read when the block is first touched,
    checked, and kept. Threads may share one; `close` only when none of them reads.
    """

    def __init__(self, volumes: VolumeSet) -> None:
        self.volumes = volumes
        self._descriptors: dict[Path, int] = {}
        self._indexes: dict[int, BlockIndex] = {}
        self._lock = Lock()
        self._closed = False

    def __len__(self) -> int:
        return self.volumes.num_samples

    def __getitem__(self, number: int) -> Sample:
        """Read one sample; a negative number counts from the end.

        Raises:
            IndexError: There is no such sample.
            BlockError: The sample's block has a damaged index.
        """
        sample_id = number + len(self) if number < 0 else number
        if not 0 <= sample_id < len(self):
            raise IndexError(f"sample {number} of a set with {len(self)} samples")
        block, row = self.volumes.block_of(sample_id)
        index = self._index(block)
        span = self.volumes.span(block)
        place = span.offset + int(index.offsets[row])
        data = read_bytes(self._descriptor(span.path), int(index.sizes[row]), place, span.path)
        label = int(index.labels[row])
        return Sample(data.data, label, self.volumes.class_name(label), sample_id)

    def __iter__(self) -> Iterator[Sample]:
        return (self[sample_id] for sample_id in range(len(self)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def labels(self) -> npt.NDArray[np.int32]:
        """Return each sample's label, in volume order; read every block's index."""
        return np.concatenate(
            [self._index(block).labels for block in range(self.volumes.num_blocks)]
        )

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Return each sample's stored size, in volume order; read every index."""
        return np.concatenate(
            [self._index(block).sizes for block in range(self.volumes.num_blocks)]
        )

    def block(self, number: int) -> Block:
        """Read one whole block (of a pixel set: everything) into new aligned memory.

        Raises:
            BlockError: The block's index is damaged.
        """
        span = self.volumes.span(number)
        memory = aligned_bytes(span.nbytes)
        read_into(self._descriptor(span.path), memory, span.offset, span.path)
        first_id = int(self.volumes.first_ids[number])
        return Block(memory, self.volumes.index(number, memory), first_id)

    def close(self) -> None:
        """Close the files; sampling afterwards is an error, closing again is not."""
        with self._lock:
            self._closed = True
            while self._descriptors:
                os.close(self._descriptors.popitem()[1])

    def _index(self, block: int) -> BlockIndex:
        index = self._indexes.get(block)
        if index is None:
            span = self.volumes.span(block)
            size = self.volumes.index_bytes(block)
            front = read_bytes(self._descriptor(span.path), size, span.offset, span.path)
            # Two threads may both read it; they keep equal values.
            index = self._indexes[block] = self.volumes.index(block, front)
        return index

    def _descriptor(self, path: Path) -> int:
        with self._lock:
            if self._closed:
                raise ClosedError(f"{path} was closed; open the volumes again to read on.")
            if path not in self._descriptors:
                self._descriptors[path] = open_descriptor(path)
            return self._descriptors[path]


def open_volumes(path: str | Path) -> OpenVolumes:
    """Open the data set that a file, a folder or a glob pattern names.

    Raises:
        SetError: Nothing is there, several data sets are, or one is not whole.
        HeaderError, BlockError: A file is damaged.
    """
    return OpenVolumes(scan(path))


Labels = npt.NDArray[np.int32]

_TURN_BLOCKS = 64  # blocks whose index one thread reads with one descriptor


def read_labels(data: DataSet) -> Labels:
    """Return the label of every sample, by its id; read no sample.

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
