"""One block, or one sample of it, straight from disk, whatever a store holds.

A substitute for a bad sample may lie in any block, and few are ever needed.
"""

from collections.abc import Callable
from threading import Lock

import numpy as np

from dtsflow.errors import ClosedError
from dtsflow.memory.align import aligned_bytes
from dtsflow.reader.block_reader import BlockReader, Verify
from dtsflow.reader.samples import Bytes, Samples
from dtsflow.volume.block import BlockIndex
from dtsflow.volume.exact_read import opened, read_bytes
from dtsflow.volume.indexes import read_indexes
from dtsflow.volume.volume_set import VolumeSet

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
        ClosedError: `stop` said so.
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
        """The sample `place` of `block`, in memory of its own.

        Raises:
            BlockError: The block is damaged.
            VolumeError: It cannot be read.
            ClosedError: `stop` said so.
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
