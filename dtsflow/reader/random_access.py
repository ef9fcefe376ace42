"""Samples one by one, from whatever the data set is stored in.

One block, or one sample of it, is read straight from disk, whatever a store holds. A
substitute for a bad sample may lie in any block, and few are ever needed.
"""

import dataclasses
from collections.abc import Callable
from threading import Lock
from typing import Protocol

import numpy as np

from dtsflow.errors import ClosedError
from dtsflow.memory.align import aligned_bytes
from dtsflow.reader.block_io import BlockReader, Verify
from dtsflow.reader.files_on_demand import SingleImages
from dtsflow.reader.pixels import SinglePixels
from dtsflow.reader.records import SingleRecords
from dtsflow.reader.store import Bytes, Samples
from dtsflow.volume.data_set import DataSet
from dtsflow.volume.datasets.images import RawSet
from dtsflow.volume.datasets.mixed import MixedSet
from dtsflow.volume.datasets.pixels import RawPixels
from dtsflow.volume.datasets.records import RecordSet
from dtsflow.volume.datasets.scan import read_indexes
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.block import BlockIndex
from dtsflow.volume.format.io import opened, read_bytes

KEPT_INDEXES = 16  # some kilobytes each


def never() -> bool:
    """Read on."""
    return False


def read_block(
    volumes: VolumeSet, block: int, *, stop: Callable[[], bool] = never
) -> tuple[Bytes, BlockIndex]:
    """Read a whole block into new memory, and check it; `stop` may end that halfway.

    Raises:
        BlockError: It is damaged.
        VolumeError: It cannot be read.
        ClosedError: `stop` asked for it.
    """
    span = volumes.span(block)
    memory = aligned_bytes(span.nbytes)
    reader = BlockReader(volumes, Verify.BLOCK, retries=0, pause=lambda _seconds: stop())
    try:
        index = reader.read(block, memory, stop)
    finally:
        reader.close()
    if index is None:
        raise ClosedError("The pass ended while a block was read for a substitute.")
    return memory, index


class SingleSamples:
    """Reads samples one by one; the threads of a run share it.

    Before its first sample a block is read as a whole, to check it; of a block that was
    found whole, the index and the sample are all that is read.
    """

    def __init__(self, volumes: VolumeSet) -> None:
        self._volumes = volumes
        self._whole: set[int] = set()
        self._indexes: dict[int, BlockIndex] = {}
        self._lock = Lock()

    def trust(self, block: int) -> None:
        """Say that whoever read a block before has found it whole."""
        self._whole.add(block)

    def read(self, block: int, place: int, *, stop: Callable[[], bool] = never) -> Samples:
        """Return the sample `place` of `block`, in memory of its own.

        Raises:
            BlockError: The block is damaged.
            VolumeError: It cannot be read.
            ClosedError: `stop` asked for it.
        """
        index = self._index(block, stop)
        span = self._volumes.span(block)
        start, size = int(index.offsets[place]), int(index.sizes[place])
        with opened(span.path) as descriptor:
            memory = read_bytes(descriptor, size, span.offset + start, span.path)
        return Samples(
            memory,
            offsets=np.zeros(1, np.int64),
            sizes=np.array([size], np.int64),
            labels=index.labels[place : place + 1],
            ids=np.array([self._volumes.first_ids[block] + place], np.int64),
        )

    def _index(self, block: int, stop: Callable[[], bool]) -> BlockIndex:
        with self._lock:  # so that two threads do not check one block
            index = self._indexes.pop(block, None)
            if index is None and block in self._whole:
                ((_, index),) = read_indexes(self._volumes, [block])
            elif index is None:
                _, index = read_block(self._volumes, block, stop=stop)
                self._whole.add(block)
            self._indexes[block] = index  # the newest is the last
            if len(self._indexes) > KEPT_INDEXES:
                del self._indexes[next(iter(self._indexes))]
            return index


class Singles(Protocol):
    """Reads a few samples, in addition to what a store holds; threads share it."""

    def trust(self, block: int) -> None:
        """Say that whoever read a block before has found it whole."""

    def read(self, block: int, place: int, *, stop: Callable[[], bool]) -> Samples:
        """Return the sample `place` of `block`, in memory of its own.

        Raises:
            BlockError: The block is damaged.
            VolumeError: It cannot be read.
            ClosedError: `stop` asked for it.
        """


def singles_of(data: DataSet) -> Singles:
    """Return what reads single samples of a set of images or records."""
    if isinstance(data, RecordSet):
        return SingleRecords(data)
    if isinstance(data, RawSet):
        return SingleImages(data)
    if isinstance(data, MixedSet):
        return _MixedSingles(data)
    if isinstance(data, RawPixels):
        return SinglePixels(data)
    assert isinstance(data, VolumeSet)
    return SingleSamples(data)


class _MixedSingles:
    """Reads single samples of the sources of a mix."""

    def __init__(self, mix: MixedSet) -> None:
        self._mix = mix
        self._of_sources = [
            SingleImages(source, int(first)) if isinstance(source, RawSet) else singles_of(source)
            for source, first in zip(mix.sources, mix.first_samples, strict=True)
        ]

    def trust(self, block: int) -> None:
        source, own = self._locate(block)
        self._of_sources[source].trust(own)

    def read(self, block: int, place: int, *, stop: Callable[[], bool]) -> Samples:
        source, own = self._locate(block)
        samples = self._of_sources[source].read(own, place, stop=stop)
        return dataclasses.replace(samples, ids=samples.ids + self._mix.first_samples[source])

    def _locate(self, block: int) -> tuple[int, int]:
        """Return the source that has a block, and the block's number in it."""
        source = self._mix.source_of(block)
        return source, block - int(self._mix.first_blocks[source])
