"""The plan: everything a run will do, worked out before a byte is allocated."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dtsflow.about import __version__
from dtsflow.memory.plan import MemoryPlan
from dtsflow.ranks.rank import Rank
from dtsflow.reader.order import Order, Shuffle
from dtsflow.reader.reader import Mode
from dtsflow.reader.selection import Selection
from dtsflow.reader.store import Store
from dtsflow.spec import FieldSpec, ImageSpec, Place, RecordSpec
from dtsflow.state import DIGITS, State
from dtsflow.station.engine import Engine
from dtsflow.tensor.dtype import DType
from dtsflow.volume.volume_set import VolumeSet

if TYPE_CHECKING:
    from dtsflow.pipeline import Pipeline
    from dtsflow.run import Run
    from dtsflow.telemetry.folder import RunFolder

# Raise it whenever the same configuration comes to mean another order or other pixels.
ALGORITHM = 1

BESIDE_ROW_BYTES = 1 + 8  # `valid` and `sample_ids` of one row, in each of the two zones


@dataclass(frozen=True)
class Plan:
    """Every spec, span and order of a run, for one rank.

    Attributes:
        pipeline: What was planned.
        rank: For whom.
        volumes: The data set.
        order: Which sample stands in which row of which batch, counting only those of
            the selection, if there is one.
        lanes: The lanes of this rank.
        specs: The image as decoded, then as each preprocess operation leaves it.
        memory: The device memory plan.
        workers: Threads that fill batches.
        chunk_rows: Rows that one worker fills at a time.
        selection: The samples of `reader.subset`; None: all.
    """

    pipeline: "Pipeline"
    rank: Rank
    volumes: VolumeSet
    order: Order
    lanes: range
    specs: tuple[ImageSpec, ...]
    memory: MemoryPlan
    workers: int
    chunk_rows: int
    selection: Selection | None = None

    def open(self, folder: "RunFolder | None" = None, start: State | None = None) -> "Run":
        """Allocate memory, start threads and begin to read.

        With `start` the run goes on there; it must be a state of this plan.

        Raises:
            MemoryPlanError: The plan needs more memory than `memory.limit`.
        """
        from dtsflow.run import Run  # noqa: PLC0415  # a run knows its plan, so not the reverse

        self.pipeline.memory.check(self.memory_entries)
        return Run(self, folder, start)

    def engine(self) -> Engine:
        """What one worker fills rows with."""
        return self.pipeline.engine(self.volumes)

    @property
    def stored_channels(self) -> int:
        """Channels that a pixel takes in a zone."""
        pixels = self.specs[-1]
        return self.pipeline.station.stored_channels(pixels.channels, pixels.dtype)

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

    @cached_property
    def memory_entries(self) -> dict[str, int]:
        """Bytes that the run will hold, by what they are for."""
        mode, _ = self.reading
        reader = self.pipeline.reader
        held = reader.planned_bytes(mode, self.volumes, self.order, self.lanes)
        name = "resident blocks" if mode == "resident" else "streaming windows"
        return {**self._other_entries, name: held}

    @cached_property
    def reading(self) -> tuple[Mode, str]:
        """How blocks are held in memory, and why; no sample or order depends on it.

        Raises:
            PlanError: Streaming was asked for and cannot be.
        """
        room = self.pipeline.memory.allowed_bytes() - sum(self._other_entries.values())
        return self.pipeline.reader.choose(self.volumes, self.order, self.lanes, max(0, room))

    @property
    def _other_entries(self) -> dict[str, int]:
        return {
            "zones": self.memory.total_bytes,
            "rows beside the zones": 2 * self.rows * BESIDE_ROW_BYTES,
            "order of an epoch": self.order.planned_bytes,
        }

    def open_store(self, epoch: int, step: int) -> Store:
        """Start reading; what is needed from there on first."""
        mode, _ = self.reading
        start = (epoch, step)
        return self.pipeline.reader.open(mode, self.volumes, self.order, self.lanes, start)

    @property
    def total_bytes(self) -> int:
        """All bytes of `memory_entries`."""
        return sum(self.memory_entries.values())

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

    def fingerprint(self) -> dict[str, str]:
        """What a run that goes on must have as it was, each as a short digest.

        Workers, ranks, the reader's mode, memory and machine have no part in it.
        """
        order, decode = self.order, self.pipeline.decode
        items = {
            "data": self.volumes.fingerprint(),
            "seed": order.seed,
            "batch_size": order.batch_size,
            "lanes": order.lanes,
            "window_bytes": order.window if order.shuffle is Shuffle.BLOCKS else None,
            "shuffle": order.shuffle.value,
            "tail": order.tail.value,
            "decode": [decode.orientation, decode.scaled, decode.on_error],
            "po": self._operations,
            "algorithm": ALGORITHM,
            **self._subset,
            **self._mix,
        }
        return {
            name: hashlib.sha256(json.dumps(item).encode()).hexdigest()[:DIGITS]
            for name, item in items.items()
        }

    @property
    def _operations(self) -> list[str]:
        return [f"{type(o).__module__}.{o!r}" for o in self.pipeline.po.operations]

    @property
    def _subset(self) -> dict[str, str]:
        return {} if self.selection is None else {"subset": self.selection.digest()}

    @property
    def _mix(self) -> dict[str, Any]:
        mixing = self.order.mixing
        if mixing is None:
            return {}
        return {"mix": [list(mixing.blocks), list(mixing.weights), self.order.samples]}

    def digest(self) -> str:
        """SHA-256 over what must agree for two ranks to deliver parts of one run."""
        order = self.order
        facts = {
            "library": __version__,
            "data": self.volumes.fingerprint(),
            "batch_size": order.batch_size,
            "lanes": order.lanes,
            "seed": order.seed,
            "shuffle": order.shuffle.value,
            "tail": order.tail.value,
            "window": order.window if order.shuffle is Shuffle.BLOCKS else None,
            "phase": order.phase,
            "decode": repr(self.pipeline.decode),
            "operations": self._operations,
            "memory": self.memory.digest(),
            **self._subset,
            **self._mix,
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
