"""A phase: the stages and sizes that train, val, … each have for themselves."""

from collections.abc import Mapping
from types import ModuleType
from typing import Annotated, Literal, Protocol, Self, runtime_checkable

from pydantic import Field, model_validator

from dtsflow.arena.batch import Batch
from dtsflow.configurable import configurable
from dtsflow.decode.decoder import Decoder
from dtsflow.decode.on_error import MaxErrors, OnError
from dtsflow.decode.orientation import Orientation
from dtsflow.decode.parse import Parse
from dtsflow.decode.pixels import PixelDecoder
from dtsflow.native.core import load, warn_absent
from dtsflow.po.branch import Branch
from dtsflow.po.chain import Chain
from dtsflow.po.fused import FusedProgram
from dtsflow.po.named_fields import check_columns
from dtsflow.po.record_chain import RecordChain
from dtsflow.po.shrink import can_shrink
from dtsflow.reader.order import Order, Shuffle, Tail, auto_lanes, window_blocks
from dtsflow.reader.reader import Reader
from dtsflow.reader.selection import Selection
from dtsflow.record_phase import record_shuffle
from dtsflow.spec import IMAGES
from dtsflow.station.batch_operations import SOFT_LABELS
from dtsflow.station.engine import Engine
from dtsflow.station.fused import NativeEngine
from dtsflow.station.native_views import NativeViewsEngine, View, cuts
from dtsflow.station.reference import ReferenceEngine
from dtsflow.station.station import Station
from dtsflow.volume.data_set import DataSet
from dtsflow.volume.data_source import Source
from dtsflow.volume.image_list import ImageLoader
from dtsflow.volume.loaded import Loaded, LoadedImages
from dtsflow.volume.record_set import RecordSet
from dtsflow.volume.records import Loader

Auto = Literal["auto"]
Positive = Annotated[int, Field(ge=1, strict=True)]  # strict: true is not 1


@runtime_checkable
class Decode(Protocol):
    """How stored images are decoded."""

    @property
    def orientation(self) -> Orientation:
        """Whether EXIF orientations are applied."""

    @property
    def scaled(self) -> bool:
        """Whether a JPEG may be decoded at a part of its size."""

    @property
    def on_error(self) -> OnError:
        """What becomes of a bad sample."""

    @property
    def max_errors(self) -> MaxErrors:
        """More bad samples than this end the run."""

    @property
    def allows_native(self) -> bool:
        """Whether the compiled core may decode in its place, pixel for pixel alike."""

    def start(self) -> Decoder:
        """A decoder for one worker."""

    def describe(self) -> str:
        """What will decode, for the plan."""


@configurable
class Phase:
    """What a phase reads and what becomes of it, up to the station that all share.

    Attributes:
        batch_size: Rows of a global batch, over all ranks.
        lanes: Canonical shards of an epoch; part of the order, so never taken from the
            number of ranks. `auto` is the largest divisor of `batch_size` up to 16.
        tail: What becomes of a last batch that is not full: `pad`, `drop` or `wrap`.
    """

    volume: Source | Loader | ImageLoader | None
    reader: Reader
    decode: Decode | Parse
    po: Chain | RecordChain
    batch_size: Positive = 256
    lanes: Annotated[int, Field(ge=1, lt=1 << 16, strict=True)] | Auto = "auto"
    tail: Tail = Tail.PAD

    @model_validator(mode="after")
    def _named(self) -> Self:
        for name in self.po.views if isinstance(self.po, Chain) else ():
            if name == SOFT_LABELS or hasattr(Batch, name):
                raise ValueError(
                    f"po.views: {name!r} is something else of a batch. Give the view another name."
                )
        return self

    @property
    def source(self) -> Source:
        """Where the data set comes from: the volume, or the mix of the reader.

        Raises:
            ConfigError: There is none, or both.
        """
        volume = self.volume
        if isinstance(volume, ImageLoader):
            return self.reader.source(LoadedImages(volume))
        return self.reader.source(Loaded(volume) if isinstance(volume, Loader) else volume)

    def check_columns(self, volumes: DataSet) -> None:
        """See that a batch can have the columns of the data set beside all else.

        Raises:
            PlanError: It has something else of such a name.
        """
        views = tuple(self.po.views) if isinstance(self.po, Chain) else ()
        check_columns([one.field for one in volumes.columns], (*views, SOFT_LABELS))

    def order(
        self, volumes: DataSet, selection: Selection | None, *, seed: int, number: int
    ) -> Order:
        """The order of every epoch; `number` is the phase's in random addresses.

        Raises:
            PlanError: There are no samples, no steps, or lanes that do not divide.
        """
        lanes = auto_lanes(self.batch_size) if self.lanes == "auto" else self.lanes
        mixing = self.reader.mixing(volumes)
        sources = 1 if mixing is None else len(mixing.blocks)
        return Order(
            counts=volumes.counts if selection is None else selection.counts,
            batch_size=self.batch_size,
            lanes=lanes,
            seed=seed,
            shuffle=self._shuffle(volumes),
            tail=self.tail,
            window=1
            if isinstance(volumes, RecordSet)
            else window_blocks(self.reader.window_bytes, lanes, sources),
            phase=number,
            mixing=mixing,
        )

    def _shuffle(self, volumes: DataSet) -> Shuffle:
        """The value of `reader.shuffle` that is in force."""
        asked = self.reader.shuffle
        if isinstance(volumes, RecordSet):
            return record_shuffle(asked, volumes, self.tail)
        if not volumes.has_blocks and asked.has_windows:
            return Shuffle.FULL  # there are no blocks to permute
        return asked

    def engine(self, volumes: DataSet, station: Station, branches: Mapping[str, Branch]) -> Engine:
        """What one worker fills rows of `station` with, through chains of one epoch."""
        pixels, decode = volumes.layout == "pixels", self.image_decode
        decoder = PixelDecoder(volumes.image) if pixels else decode.start()
        shrinks = (
            decode.scaled
            and not pixels
            and all(can_shrink(branch.operations) for branch in branches.values())
        )
        core = self.core(volumes)
        programs = {name: branch.program(core) for name, branch in branches.items()}
        main, views = programs[IMAGES], {**programs}
        del views[IMAGES]
        if core is None:
            return ReferenceEngine(decoder, main, views=views, shrinks=shrinks)
        fused = {name: _fused(core, branch, station) for name, branch in branches.items()}
        engine = NativeEngine(
            core,
            decoder,
            main,
            fused[IMAGES],
            volumes.image if pixels else None,
            turns=decode.orientation == "apply",
            shrinks=shrinks,
        )
        if not views:
            return engine
        every = {
            name: View(programs[name], fused[name], cuts(branch.operations))
            for name, branch in branches.items()
        }
        return NativeViewsEngine(core, decoder, engine, every, encoded=not pixels, shrinks=shrinks)

    @property
    def image_decode(self) -> Decode:
        """How images are decoded, in a phase that has some."""
        assert not isinstance(self.decode, Parse)  # refused at plan time
        return self.decode

    @property
    def image_chain(self) -> Chain:
        """What becomes of them."""
        assert isinstance(self.po, Chain)
        return self.po

    def core(self, volumes: DataSet) -> ModuleType | None:
        """The compiled core if it runs this phase; None: the reference path."""
        if not (self.image_decode.allows_native or volumes.layout == "pixels"):
            return None
        core = load()
        if core is None:
            warn_absent()
        return core


def _fused(core: ModuleType, branch: Branch, station: Station) -> FusedProgram:
    out = branch.out_spec
    stored = station.stored_channels(out.channels, out.dtype)
    return FusedProgram(core, branch.operations, branch.specs, stored)
