"""The pipeline: the stages of a run as fields, in the order data flows through them."""

from types import ModuleType
from typing import Annotated, Literal, Protocol, runtime_checkable

from pydantic import Field

from dtsflow.arena.host import Host
from dtsflow.configurable import configurable
from dtsflow.consumer.consumer import Consumer
from dtsflow.decode.decoder import Decoder
from dtsflow.decode.on_error import MaxErrors, OnError
from dtsflow.decode.orientation import Orientation
from dtsflow.decode.pixels import PixelDecoder
from dtsflow.memory.budget import Budget
from dtsflow.memory.limit import cpu_limit
from dtsflow.memory.plan import MemoryPlan
from dtsflow.native.core import load, warn_absent
from dtsflow.plan import Plan
from dtsflow.po.chain import Chain
from dtsflow.po.fused import FusedProgram
from dtsflow.po.shrink import can_shrink
from dtsflow.ranks.rank import Rank
from dtsflow.ranks.single import Single
from dtsflow.reader.order import Order, Shuffle, Tail, auto_lanes, window_blocks
from dtsflow.reader.reader import Reader
from dtsflow.reader.selection import Selection
from dtsflow.reader.subset import select
from dtsflow.seed.address import check_field
from dtsflow.spec import ImageSpec
from dtsflow.station.engine import Engine
from dtsflow.station.fused import NativeEngine
from dtsflow.station.reference import ReferenceEngine
from dtsflow.station.station import Station
from dtsflow.tensor.shape import Shape
from dtsflow.volume.data_source import Source
from dtsflow.volume.volume_set import Layout, VolumeSet

# Rows of JPEGs a worker fills at a time, at most: a NumPy call costs as much for one
# row as for all, but in the middle of a chunk no worker can be stopped.
CHUNK_ROWS = 64

Auto = Literal["auto"]
AUTO, NEVER = "auto", "never"  # what `resume` is, if no path
Positive = Annotated[int, Field(ge=1, strict=True)]  # strict: true is not 1


@runtime_checkable
class Decode(Protocol):
    """How stored images are decoded."""

    orientation: Orientation
    scaled: bool
    on_error: OnError
    max_errors: MaxErrors

    @property
    def allows_native(self) -> bool:
        """Whether the compiled core may decode in its place, pixel for pixel alike."""

    def start(self) -> Decoder:
        """A decoder for one worker."""

    def describe(self) -> str:
        """What will decode, for the plan."""


@configurable
class Pipeline:
    """A configured run: the stages in flow order, then what they share.

    Attributes:
        name: Name of the run folder; without it the library writes none.
        seed: Seed of every random number, 0 ≤ seed < 2⁶⁴.
        epochs: Passes over the data.
        batch_size: Rows of a global batch, over all ranks.
        workers: Threads that decode and preprocess; `auto` is the CPUs this process may
            use, divided by the ranks of this node.
        lanes: Canonical shards of an epoch; part of the order, so never taken from the
            number of ranks. `auto` is the largest divisor of `batch_size` up to 16.
        tail: What becomes of a last batch that is not full: `pad`, `drop` or `wrap`.
        max_steps: `for batch in run`, and so `dtsflow run`, ends after so many batches.
        resume: Where the run begins. `never`: at the beginning. `auto`: where the
            unfinished run of the same name was stopped, if there is one. Else a run
            folder or its state.json.
    """

    volume: Source | None
    reader: Reader
    decode: Decode
    po: Chain
    station: Station
    arena: Host
    consumer: Consumer
    ranks: Single
    memory: Budget
    name: Annotated[str, Field(min_length=1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] = 0
    epochs: Annotated[int, Field(ge=1, lt=1 << 32)] = 1
    batch_size: Positive = 256
    workers: Annotated[int, Field(ge=1, le=1024, strict=True)] | Auto = "auto"
    lanes: Annotated[int, Field(ge=1, lt=1 << 16, strict=True)] | Auto = "auto"
    tail: Tail = Tail.PAD
    max_steps: Positive | None = None
    resume: Annotated[str, Field(min_length=1)] = NEVER

    @property
    def source(self) -> Source:
        """Where the data set comes from: the volume, or the mix of the reader.

        Raises:
            ConfigError: There is none, or both.
        """
        return self.reader.source(self.volume)

    def plan(self, rank: Rank) -> Plan:
        """Work out every spec, span and order of the run for one rank.

        Reads headers and block counts, for a subset also labels; opens nothing for
        good, allocates nothing.

        Raises:
            PlanError: The parts do not fit together.
            VolumeError: The data set is not what it should be.
        """
        volumes = self.source.scan()
        specs = tuple(self.po.specs(volumes.image))
        check_field("seed", self.seed)
        check_field("epoch", self.epochs - 1)
        check_field("position", len(self.po.operations))
        check_field("block", volumes.num_blocks)  # more than the windows of any lane
        selection = select(volumes, self.reader.subset)
        order = self._order(volumes, selection)
        check_field("id", volumes.num_samples * order.rounds)
        lanes = order.lanes_of(rank.index, rank.size)
        rows = len(lanes) * order.lane_rows
        workers = self._workers(rank)
        return Plan(
            pipeline=self,
            rank=rank,
            volumes=volumes,
            order=order,
            lanes=lanes,
            specs=specs,
            memory=_input_plan(rows, specs[-1]),
            workers=workers,
            chunk_rows=_chunk_rows(rows, workers, volumes.layout),
            selection=selection,
        )

    def engine(self, volumes: VolumeSet) -> Engine:
        """What one worker fills rows with."""
        pixels = volumes.layout == "pixels"
        decoder = PixelDecoder(volumes.image) if pixels else self.decode.start()
        program = self.po.program(volumes.image)
        shrinks = self.decode.scaled and not pixels and can_shrink(self.po.operations)
        if (core := self.core(volumes)) is None:
            return ReferenceEngine(decoder, program, shrinks=shrinks)
        specs = self.po.specs(volumes.image)
        stored = self.station.stored_channels(specs[-1].channels, specs[-1].dtype)
        return NativeEngine(
            core,
            decoder,
            program,
            FusedProgram(core, self.po.operations, specs, stored),
            volumes.image if pixels else None,
            turns=self.decode.orientation == "apply",
            shrinks=shrinks,
        )

    def core(self, volumes: VolumeSet) -> ModuleType | None:
        """The compiled core if it runs this pipeline; None: the reference path."""
        if not (self.decode.allows_native or volumes.layout == "pixels"):
            return None
        core = load()
        if core is None:
            warn_absent()
        return core

    def _order(self, volumes: VolumeSet, selection: Selection | None) -> Order:
        lanes = auto_lanes(self.batch_size) if self.lanes == "auto" else self.lanes
        shuffle = self.reader.shuffle
        if volumes.layout == "pixels" and shuffle is Shuffle.BLOCKS:
            shuffle = Shuffle.FULL  # a pixel set has no blocks to permute
        mixing = self.reader.mixing(volumes)
        sources = 1 if mixing is None else len(mixing.blocks)
        return Order(
            counts=volumes.counts if selection is None else selection.counts,
            batch_size=self.batch_size,
            lanes=lanes,
            seed=self.seed,
            shuffle=shuffle,
            tail=self.tail,
            window=window_blocks(self.reader.window_bytes, lanes, sources),
            mixing=mixing,
        )

    def _workers(self, rank: Rank) -> int:
        if self.workers != "auto":
            return self.workers
        # IO threads wait for the disk and need next to no CPU, so none is set aside.
        return max(1, cpu_limit() // rank.local_size)


def _chunk_rows(rows: int, workers: int, layout: Layout) -> int:
    """Rows that a worker fills at a time; no pixel depends on it."""
    if layout == "pixels":
        # All cost alike, a microsecond each: as few chunks as keep both zones in work.
        return -(-rows // -(-workers // 2))
    # JPEGs differ: two chunks a worker and batch, so that none waits long for another.
    return max(1, min(CHUNK_ROWS, rows // (2 * workers)))


def _input_plan(rows: int, pixels: ImageSpec) -> MemoryPlan:
    assert pixels.height is not None  # Chain.specs refuses a chain that ends otherwise
    assert pixels.width is not None
    image = Shape(1, pixels.height, pixels.width, pixels.channels)
    return MemoryPlan().input_buffers(batch=rows, image=image, dtype=pixels.dtype).finalize()
