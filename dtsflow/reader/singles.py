"""Samples one by one, from whatever the data set is stored in."""

from collections.abc import Callable
from typing import Protocol

from dtsflow.reader.image_reader import SingleImages
from dtsflow.reader.one_block import SingleSamples
from dtsflow.reader.samples import Samples
from dtsflow.reader.single_records import SingleRecords
from dtsflow.volume.data_set import DataSet
from dtsflow.volume.raw_set import RawSet
from dtsflow.volume.record_set import RecordSet
from dtsflow.volume.volume_set import VolumeSet


class Singles(Protocol):
    """Reads a few samples, in addition to what a store holds; threads share it."""

    def trust(self, block: int) -> None:
        """Say that whoever read a block before has found it whole."""

    def read(self, block: int, place: int, *, stop: Callable[[], bool]) -> Samples:
        """The sample `place` of `block`, in memory of its own.

        Raises:
            BlockError: The block is damaged.
            VolumeError: It cannot be read.
            ClosedError: `stop` said so.
        """


def singles_of(data: DataSet) -> Singles:
    """What reads single samples of a set of images or records."""
    if isinstance(data, RecordSet):
        return SingleRecords(data)
    if isinstance(data, RawSet):
        return SingleImages(data)
    assert isinstance(data, VolumeSet)  # of raw pixels none is bad, so none is replaced
    return SingleSamples(data)
