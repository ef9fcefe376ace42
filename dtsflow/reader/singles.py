"""Samples one by one, from whatever the data set is stored in."""

import dataclasses
from collections.abc import Callable
from typing import Protocol

from dtsflow.reader.image_reader import SingleImages
from dtsflow.reader.one_block import SingleSamples
from dtsflow.reader.pixel_store import SinglePixels
from dtsflow.reader.samples import Samples
from dtsflow.reader.single_records import SingleRecords
from dtsflow.volume.data_set import DataSet
from dtsflow.volume.mixed_set import MixedSet
from dtsflow.volume.raw_pixels import RawPixels
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
        """The source that has a block, and the block's number in it."""
        source = self._mix.source_of(block)
        return source, block - int(self._mix.first_blocks[source])
