"""The plan of one phase: what its batches are, where their samples come from."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dtsflow.arena.form import Form
from dtsflow.native.steps import Finish
from dtsflow.phase import Phase
from dtsflow.po.chain import Chain
from dtsflow.po.erasing import RandomErasing
from dtsflow.ranks.group import Group
from dtsflow.reader.order import Order, Shuffle
from dtsflow.reader.portions import Portions
from dtsflow.reader.reader import Mode
from dtsflow.reader.samples import Bytes
from dtsflow.reader.selection import Selection
from dtsflow.reader.store import Store
from dtsflow.spec import FieldSpec, ImageSpec, Place, RecordSpec
from dtsflow.station.engine import Engine
from dtsflow.station.station import Station
from dtsflow.tensor.dtype import DType
from dtsflow.volume.data_set import DataSet


@dataclass(frozen=True)
class PhasePlan:
    """Every spec and order of a phase, for one rank.

    Attributes:
        name: The phase's name.
        phase: What was planned.
        station: Where its batches are made, as those of the other phases.
        volumes: The data set.
        order: Which sample stands in which row of which batch, counting only those of
            the selection, if there is one.
        lanes: The lanes of this rank.
        specs: The image as decoded, then as each preprocess operation leaves it.
        chunk_rows: Rows that one worker fills at a time.
        selection: The samples of `reader.subset`; None: all.
        arena_finishes: Whether Normalize is done where the batches live.
    """

    name: str
    phase: Phase
    station: Station
    volumes: DataSet
    order: Order
    lanes: range
    specs: tuple[ImageSpec, ...]
    chunk_rows: int
    selection: Selection | None = None
    arena_finishes: bool = False

    def engine(self) -> Engine:
        """What one worker fills rows with."""
        phase = self.phase
        if self._finish is not None:
            phase = replace(phase, po=Chain(phase.po.operations[:-1]))
        return phase.engine(self.volumes, self.station)

    def planned_bytes(self, mode: Mode) -> int:
        """Bytes that the samples in memory and their index occupy during a run."""
        reader = self.phase.reader
        return reader.planned_bytes(mode, self.volumes, self.order, self.lanes, self.portions)

    def open_store(
        self, mode: Mode, start: tuple[int, int], windows: Bytes | None, group: Group
    ) -> Store:
        """Start reading; what is needed from `start`, an epoch and step, on first.

        `windows` is the memory that all streaming phases share.
        """
        reader = self.phase.reader
        parts = (self.volumes, self.order, self.lanes, start, self.portions)
        return reader.open(mode, *parts, windows=windows, group=group)

    @property
    def portions(self) -> Portions:
        """How the rows of a batch are divided among the workers."""
        return Portions(self.order, self.lanes, self.chunk_rows, self.selection)

    @property
    def form(self) -> Form:
        """What a batch takes in the memory that all phases share."""
        return Form(self.rows, self.specs[-1], self.stored_channels, self._finish)

    @cached_property
    def _finish(self) -> Finish | None:
        """The last step, if it is left to the arena.

        What was erased is zero after normalising, which a uint8 zero would not be, so
        chains that erase are finished here.
        """
        po, pixels = self.phase.po, self.specs[-1]
        normalize = po.normalize
        erases = any(isinstance(operation, RandomErasing) for operation in po.operations)
        if not self.arena_finishes or erases or normalize is None or pixels.dtype is DType.UINT8:
            return None
        return normalize.finish(pixels.channels)

    @property
    def stored_channels(self) -> int:
        """Channels that a pixel takes in a zone."""
        pixels = self.specs[-1]
        return self.station.stored_channels(pixels.channels, pixels.dtype)

    @property
    def chunks(self) -> int:
        """Chunks of a batch."""
        return -(-self.rows // self.chunk_rows)

    @property
    def rows(self) -> int:
        """Rows of each batch on this rank."""
        return len(self.lanes) * self.order.lane_rows

    @property
    def first_row(self) -> int:
        """Where this rank's rows begin in a global batch."""
        return self.lanes.start * self.order.lane_rows

    @property
    def read_amplification(self) -> float:
        """Blocks that streaming reads per block: boundary blocks are read twice."""
        edges = len(self.order.sources) * (self.order.lanes - 1)
        return 1 + edges / max(1, int((self.order.counts > 0).sum()))

    @property
    def edges(self) -> list[tuple[str, RecordSpec]]:
        """Each stage of the graph with the record that leaves it."""
        label = FieldSpec("label", (), DType.INT32, Place.HOST)
        stored = FieldSpec("bytes", (None,), DType.UINT8, Place.HOST)
        on_disk = FieldSpec("bytes", (None,), DType.UINT8, Place.DISK)
        last = len(self.specs) - 1
        names = ["decode", *(f"po.operations[{i}]" for i in range(last))]
        return [
            ("volume", RecordSpec((on_disk,))),
            ("reader", RecordSpec((stored, label))),
            *(
                (name, RecordSpec((spec.field("image", Place.HOST), label)))
                for name, spec in zip(names, self.specs, strict=True)
            ),
            ("station", RecordSpec(self._zone_fields())),
        ]

    def _zone_fields(self) -> tuple[FieldSpec, ...]:
        pixels = self.specs[-1]
        return (
            FieldSpec("labels", (self.rows,), DType.INT32, Place.ZONE),
            FieldSpec(
                "images",
                (self.rows, pixels.height, pixels.width, self.stored_channels),
                pixels.dtype,
                Place.ZONE,
            ),
        )

    @cached_property
    def facts(self) -> dict[str, Any]:
        """All that the order and the pixels depend on, but for the seed, by its key."""
        order, decode = self.order, self.phase.decode
        subset = None if self.selection is None else self.selection.digest()
        return {
            "data": self.volumes.fingerprint(),
            "batch_size": order.batch_size,
            "lanes": order.lanes,
            "window_bytes": order.window if order.shuffle is Shuffle.BLOCKS else None,
            "shuffle": order.shuffle.value,
            "tail": order.tail.value,
            "decode": [decode.orientation, decode.scaled, decode.on_error],
            "po": [f"{type(o).__module__}.{o!r}" for o in self.phase.po.operations],
            **({} if subset is None else {"subset": subset}),
            **self._mix,
        }

    @property
    def _mix(self) -> dict[str, Any]:
        mixing = self.order.mixing
        if mixing is None:
            return {}
        return {"mix": [list(mixing.blocks), list(mixing.weights), self.order.samples]}
