"""A phase: the stages and sizes that train, val, … each have for themselves.

The differences of a phase whose data set is one of records are here, too.
"""

from collections.abc import Mapping
from types import ModuleType
from typing import Annotated, Literal, Protocol, Self, runtime_checkable

from pydantic import Field, model_validator

from dtsflow.arena.batch import Batch
from dtsflow.config.configurable import configurable
from dtsflow.decode.decoder import CachingDecode, Decoder, MaxErrors, OnError, Orientation
from dtsflow.decode.parser import Parse
from dtsflow.decode.pillow import PixelDecoder
from dtsflow.errors import PlanError
from dtsflow.native.core import load, warn_absent
from dtsflow.pipeline.engines import ImageEngines
from dtsflow.po.chain import Branch, Chain
from dtsflow.po.records import Fields, RecordChain, RecordProgram, check_columns, check_fields
from dtsflow.po.resize import can_shrink
from dtsflow.ranks.group import Rank
from dtsflow.reader.order import Order, Shuffle, Tail, auto_lanes, window_blocks
from dtsflow.reader.reader import Reader
from dtsflow.reader.rows import Selection
from dtsflow.station.batch_operations import SOFT_LABELS
from dtsflow.station.double_buffer import Station
from dtsflow.station.engine import Engine
from dtsflow.station.record_engine import RecordEngine
from dtsflow.station.row_cache import CachePolicy, RowCache
from dtsflow.volume.data_set import DataSet, Source, Split
from dtsflow.volume.datasets.config import Loaded, LoadedImages
from dtsflow.volume.datasets.image_list import ImageLoader
from dtsflow.volume.datasets.records import Loader, RecordSet


def record_fields(decode: object, po: object, volumes: DataSet, where: str) -> tuple[Fields, ...]:
    """Return the fields that a parser leaves, then those that each operation leaves.

    None for a set of images. `where` is the chain's path in the configuration.

    Raises:
        PlanError: The set is of records and the stages are not, or the reverse; or a
            stage refuses its input.
    """
    if not isinstance(volumes, RecordSet):
        _refuse_records(decode, po)
        return ()
    if not isinstance(decode, Parse):
        raise PlanError(
            f"{volumes.loader} gives records, and decode={type(decode).__name__} decodes images. "
            "Configure decode with a parser: _target_: dtsflow.decode.Parse."
        )
    if isinstance(po, Chain) and (po.operations or po.views or po.batch):
        raise PlanError(
            f"{where}: {volumes.loader} gives records, and these operations work on images. Leave "
            "them out, or configure po with _target_: dtsflow.po.RecordChain."
        )
    try:
        first = check_fields(decode.parser.fields)
    except PlanError as error:
        raise PlanError(f"decode.parser ({decode.describe()}): {error}") from error
    return tuple(_chain(po).fields(first, where=where))


def record_engine(decode: object, po: object, records: RecordSet) -> RecordEngine:
    """Return what one worker fills rows with."""
    fields = record_fields(decode, po, records, "po.operations")
    assert isinstance(decode, Parse)
    program = RecordProgram(_chain(po).operations, fields)
    return RecordEngine(decode.parser.start(), program, fields[-1])


def record_shuffle(asked: Shuffle, records: RecordSet, tail: Tail) -> Shuffle:
    """Return the value of `reader.shuffle` that is in force.

    It is limited by what the loader allows.

    Raises:
        PlanError: More was asked for, or a stream shall begin anew.
    """
    if records.is_stream and tail is Tail.WRAP:
        raise PlanError(
            f"tail=wrap delivers records again, and {records.loader} gives them in a stream, "
            "once. Use tail=pad or tail=drop."
        )
    buffer = records.records.buffer
    if asked is Shuffle.NONE:
        return asked
    if buffer is None:
        return Shuffle.FULL
    if asked is Shuffle.FULL:
        raise PlanError(
            f"shuffle=full permutes all records, and {records.loader} allows "
            f"{f'only {buffer:,} neighbours' if buffer else 'none'} to be shuffled. Use "
            "shuffle=blocks, or give its loader a larger buffer."
        )
    return Shuffle.WINDOWS if buffer else Shuffle.NONE


def split_of_set(volumes: DataSet) -> Split:
    """Return what ranks are given of a global batch: of images, a share of the rows."""
    return volumes.split if isinstance(volumes, RecordSet) else Split.ROWS


def own_lanes(volumes: DataSet, order: Order, rank: Rank) -> range:
    """Return the lanes that fill the rows of a rank.

    Its share, or all if they are broadcast.

    Raises:
        PlanError: The ranks cannot share the lanes.
    """
    if split_of_set(volumes) is Split.BROADCAST:
        return range(order.lanes)
    return order.lanes_of(rank.index, rank.size)


def _chain(po: object) -> RecordChain:
    return po if isinstance(po, RecordChain) else RecordChain()


def _refuse_records(decode: object, po: object) -> None:
    for name, is_for_records in (
        ("decode", isinstance(decode, Parse)),
        ("po", isinstance(po, RecordChain)),
    ):
        if is_for_records:
            raise PlanError(
                f"the data set holds images, and {name} is for records. Choose decode=auto and a "
                "po of images, or a volume whose loader gives records."
            )


Auto = Literal["auto"]
Positive = Annotated[int, Field(ge=1, strict=True)]  # strict: true is not 1


@runtime_checkable
class Decode(Protocol):
    """The settings by which stored images are decoded."""

    @property
    def orientation(self) -> Orientation:
        """Tell whether EXIF orientations are applied."""

    @property
    def scaled(self) -> bool:
        """Tell whether a JPEG may be decoded at a part of its size."""

    @property
    def on_error(self) -> OnError:
        """Return what becomes of a bad sample."""

    @property
    def max_errors(self) -> MaxErrors:
        """More bad samples than this end the run."""

    @property
    def allows_native(self) -> bool:
        """Tell whether the compiled core may decode in its place, with equal pixels."""

    def start(self) -> Decoder:
        """Return a decoder for one worker."""

    def describe(self) -> str:
        """Return what will decode, for the plan."""


@configurable
class Phase:
    """One phase: its data and all steps up to the station that all phases share.

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
        """Return where the data set comes from: the volume, or the mix of the reader.

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
        """Return the order of every epoch.

        `number` is the phase's in random addresses.

        Raises:
            PlanError: Samples or steps are missing, or lanes do not divide.
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
            group=self.reuse.factor,
        )

    def _shuffle(self, volumes: DataSet) -> Shuffle:
        """Return the value of `reader.shuffle` that is in force."""
        asked = self.reader.shuffle
        if isinstance(volumes, RecordSet):
            return record_shuffle(asked, volumes, self.tail)
        if not volumes.has_blocks and asked.has_windows:
            return Shuffle.FULL  # without blocks to permute
        return asked

    @property
    def reuse(self) -> CachePolicy:
        """Return how what was decoded is reused."""
        if not isinstance(self.decode, CachingDecode):
            return CachePolicy()
        return CachePolicy(self.decode.sdmp_factor, self.decode.cpvs)

    @property
    def store_bytes(self) -> int | Auto:
        """Return what kept rows may occupy on each rank."""
        return self.decode.store_bytes if isinstance(self.decode, CachingDecode) else "auto"

    def engine(
        self,
        volumes: DataSet,
        station: Station,
        branches: Mapping[str, Branch],
        kept: RowCache | None = None,
    ) -> Engine:
        """Return one worker's engine for rows of `station`, with chains of one epoch.

        With `kept` it also keeps rows of later epochs, and copies those made before.
        """
        pixels, decode = volumes.layout == "pixels", self.image_decode
        decoder = PixelDecoder(volumes.image) if pixels else decode.start()
        shrinks = (
            decode.scaled
            and not pixels
            and all(can_shrink(branch.operations) for branch in branches.values())
        )
        engines = ImageEngines(
            core=self.core(volumes),
            decoder=decoder,
            station=station,
            branches=branches,
            pixels=volumes.image if pixels else None,
            apply_orientation=decode.orientation == "apply",
            shrinks=shrinks,
        )
        return engines.engine(kept)

    @property
    def image_decode(self) -> Decode:
        """Return how images are decoded, in a phase that has some."""
        assert not isinstance(self.decode, Parse)  # refused at plan time
        return self.decode

    @property
    def image_chain(self) -> Chain:
        """Return what becomes of them."""
        assert isinstance(self.po, Chain)
        return self.po

    def core(self, volumes: DataSet) -> ModuleType | None:
        """Return the compiled core if it runs this phase; None: the reference path."""
        if not (self.image_decode.allows_native or volumes.layout == "pixels"):
            return None
        core = load()
        if core is None:
            warn_absent()
        return core
