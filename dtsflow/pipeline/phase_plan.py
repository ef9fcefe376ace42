"""The plan of one phase: what its batches are, where their samples come from."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dtsflow.arena.arena import FieldForm, Form, image_form
from dtsflow.decode.parser import Parse
from dtsflow.native.core import Finish
from dtsflow.pipeline.engines import longest_row
from dtsflow.pipeline.phase import Phase, record_engine, split_of_set
from dtsflow.po.chain import Branch, ChainVersion
from dtsflow.po.erasing import RandomErasing
from dtsflow.po.fingerprint import fingerprint_fact
from dtsflow.po.records import Fields
from dtsflow.ranks.group import Group
from dtsflow.reader.files_on_demand import images_in_hand
from dtsflow.reader.order import EpochOrder, Order, Rows, Tail
from dtsflow.reader.reader import Mode
from dtsflow.reader.records import record_bytes
from dtsflow.reader.rows import PAGE_ROWS, OwnPlaces, Portions, Selection
from dtsflow.reader.store import Bytes, Store
from dtsflow.spec import IMAGES, Field, FieldSpec, ImageSpec, Place, RecordSpec
from dtsflow.station.batch_operations import ELEMENT_BYTES, SOFT_LABELS, BatchOperations
from dtsflow.station.double_buffer import ZONES, Station
from dtsflow.station.engine import Address, Engine
from dtsflow.station.native_engine import SCRATCH_BYTES
from dtsflow.station.row_cache import RowBudget, RowCache
from dtsflow.tensor.dtype import DType
from dtsflow.volume.data_set import DataSet, Split
from dtsflow.volume.datasets.images import RawSet
from dtsflow.volume.datasets.mixed import MixedSet
from dtsflow.volume.datasets.records import RecordSet


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
        chain_versions: The operations by chain version; the first begins with epoch 0.
        chunk_rows: Rows that one worker fills at a time.
        selection: The samples of `reader.subset`; None: all.
        arena_finishes: Whether Normalize is done where the batches live.
        fields: Of a set of records, the fields as parsed, then as each operation leaves
            them.
    """

    name: str
    phase: Phase
    station: Station
    volumes: DataSet
    order: Order
    lanes: range
    chain_versions: tuple[ChainVersion, ...]
    chunk_rows: int
    selection: Selection | None = None
    arena_finishes: bool = False
    fields: tuple[Fields, ...] = ()

    def chain_version(self, epoch: int) -> ChainVersion:
        """Return what the operations are in an epoch."""
        place = bisect_right(
            self.chain_versions, epoch, key=lambda chain_version: chain_version.first
        )
        return self.chain_versions[place - 1]

    def engine(self, epoch: int = 0, kept: RowCache | None = None) -> Engine:
        """Return what one worker fills rows of an epoch with.

        `kept` has those of others.
        """
        if isinstance(self.volumes, RecordSet):
            return record_engine(self.phase.decode, self.phase.po, self.volumes)
        branches = dict(self.chain_version(epoch).branches)
        if self._finish is not None:
            main = branches[IMAGES]
            branches[IMAGES] = Branch(main.operations[:-1], main.specs[:-1])
        return self.phase.engine(self.volumes, self.station, branches, kept)

    @cached_property
    def row_budget(self) -> RowBudget | None:
        """Return what the rows kept for later epochs need; None: none are kept."""
        slots = self.phase.reuse.slots
        if self.fields or not slots:
            return None
        return RowBudget(len(self.places), slots, longest_row(self.chain_versions))

    def row_bytes(self, samples: int) -> int:
        """Return what the rows kept of so many samples occupy."""
        budget = self.row_budget
        return 0 if budget is None else budget.sample_bytes * samples

    def row_store(self, samples: int) -> RowCache | None:
        """Make room for the rows of so many samples, if any are to be kept."""
        if (budget := self.row_budget) is None:
            return None
        return RowCache(self.phase.reuse, self.places, samples, budget.row_bytes)

    def pages(self, order: EpochOrder, steps: range) -> Iterator[Rows]:
        """Yield the rows of this rank that hold a sample, some steps at a time."""
        at_once = max(1, PAGE_ROWS // self.rows)
        for first in range(steps.start, steps.stop, at_once):
            rows = order.rows(first, min(at_once, steps.stop - first), self.lanes)
            if self.selection is not None:
                rows = self.selection.located(rows)
            yield rows.only(np.flatnonzero(rows.valid))

    @property
    def places(self) -> OwnPlaces:
        """Return the samples of this rank, numbered."""
        return OwnPlaces(self.order, self.lanes)

    def batch_operations(self, epoch: int) -> BatchOperations | None:
        """Return what mixes the rows of each batch of a pass, if anything does."""
        if not (operations := self.chain_version(epoch).batch):
            return None
        address = Address(self.order.seed, epoch, self.order.phase)
        dtype = self.specs[-1].dtype
        core = self.phase.core(self.volumes)
        return BatchOperations(operations, address, self.lanes, dtype, self.chunks, core)

    def planned_bytes(self, mode: Mode) -> int:
        """Return the bytes of the samples in memory and their index during a run."""
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
        """Return how the rows of a batch are divided among the workers."""
        return Portions(self.order, self.lanes, self.chunk_rows, self.selection)

    @property
    def specs(self) -> tuple[ImageSpec, ...]:
        """Return the image in epoch 0: as decoded, then as each operation leaves it.

        A set of records has none.
        """
        if self.fields:
            return ()
        return self.chain_versions[0].branches[IMAGES].specs

    @cached_property
    def forms(self) -> dict[str, Form]:
        """Return what a batch takes in the shared memory, by the name of the form.

        The first has the phase's own name; others are those of other resolutions.
        """
        return {name: form for form, name in self._form_names.items()}

    @property
    def columns(self) -> tuple[Field, ...]:
        """Return the fields that a set of images gives a batch, beside the labels."""
        return tuple(column.field for column in self.volumes.columns)

    def form_name(self, chain_version: ChainVersion) -> str:
        """Return which of `forms` the batches of a chain version have."""
        return self._form_names[self._form(chain_version)]

    @cached_property
    def _form_names(self) -> dict[Form, str]:
        names: dict[Form, str] = {}
        for chain_version in self.chain_versions:
            of_era = f"{self.name} from epoch {chain_version.first}" if names else self.name
            names.setdefault(self._form(chain_version), of_era)
        return names

    def _form(self, chain_version: ChainVersion) -> Form:
        if self.fields:
            return Form.of_records(self.rows, self.fields[-1])
        fields = [
            image_form(name, branch.out_spec, self._stored(branch.out_spec))
            for name, branch in chain_version.branches.items()
            if name != IMAGES
        ]
        if chain_version.batch:
            fields.append(FieldForm(SOFT_LABELS, (self.volumes.num_classes,), DType.FP32))
        fields += [FieldForm(one.name, one.shape, one.dtype) for one in self.columns]
        pixels = chain_version.pixels
        return Form(self.rows, pixels, self._stored(pixels), self._finish, tuple(fields))

    def _stored(self, pixels: ImageSpec) -> int:
        return self.station.stored_channels(pixels.channels, pixels.dtype)

    @property
    def pixels(self) -> ImageSpec | None:
        """Return what a row of `images` is.

        Sides that change with the epoch are None.

        A set of records has none.
        """
        if self.fields:
            return None
        found = {chain_version.pixels for chain_version in self.chain_versions}
        sides = [{getattr(one, side) for one in found} for side in ("height", "width")]
        height, width = (of_all.pop() if len(of_all) == 1 else None for of_all in sides)
        return replace(self.specs[-1], height=height, width=width)

    def scratch_bytes(self, workers: int) -> int:
        """Return what workers hold while they fill batches, beside single images."""
        shares = len(self.chain_versions[0].branches) > 1 or self.row_budget is not None
        views = workers * SCRATCH_BYTES if shares else 0
        if not self.chain_versions[0].batch or self.phase.core(self.volumes) is not None:
            return views
        largest = max(form.stored.nbytes(self.order.lane_rows) for form in self.forms.values())
        elements = largest // self.specs[-1].dtype.itemsize
        return views + min(ZONES, workers) * ELEMENT_BYTES * elements

    def record_entries(self, workers: int) -> dict[str, int]:
        """Return the bytes that records take in memory, by what they are for.

        None of images.

        The scratch is what the rows of a chunk take between a parser and the operations
        behind it, and once more where rows of a batch lie apart.
        """
        records = self.volumes
        if not isinstance(records, RecordSet):
            return {}
        window = self.phase.reader.window_bytes
        in_hand, is_known = record_bytes(records, self.portions, workers, window)
        row = sum(field.row_bytes for fields in self.fields for field in fields)
        return {
            "records" if is_known else "records, up to reader.window_bytes": in_hand,
            "scratch of records": workers * self.chunk_rows * row,
            "listed by the loader": records.held_bytes,
        }

    def images_in_hand(self, workers: int) -> int:
        """Return the bytes of a mix's images that workers read from their own files."""
        mix = self.volumes
        if not isinstance(mix, MixedSet):
            return 0
        sizes = [source.runs.sizes for source in mix.sources if isinstance(source, RawSet)]
        count = min(workers * self.chunk_rows, ZONES * self.rows)
        may_repeat = self.order.rounds > 1 or self.order.tail is Tail.WRAP
        return images_in_hand(sizes, count, may_repeat=may_repeat)

    @cached_property
    def _finish(self) -> Finish | None:
        """Return the last step, if it is left to the arena.

        What was erased is zero after normalising, which a uint8 zero would not be, and
        what was blended is rounded after it, so such chains are finished here.
        """
        if self.fields:
            return None
        chain_version, pixels = self.chain_versions[0], self.specs[-1]
        operations = chain_version.branches[IMAGES].operations
        stays = any(isinstance(one, RandomErasing) for one in operations) or bool(
            chain_version.batch
        )
        normalize = self.phase.image_chain.normalize
        if not self.arena_finishes or stays or normalize is None or pixels.dtype is DType.UINT8:
            return None
        return normalize.finish(pixels.channels)

    @property
    def stored_channels(self) -> int:
        """Channels that a pixel takes in a zone."""
        return self._stored(self.specs[-1])

    @property
    def chunks(self) -> int:
        """Chunks of a batch."""
        return -(-self.rows // self.chunk_rows)

    @property
    def rows(self) -> int:
        """Rows of each batch on this rank."""
        return len(self.lanes) * self.order.lane_rows

    @property
    def split(self) -> Split:
        """Tell whether each rank has a share of the rows, or all of them."""
        return split_of_set(self.volumes)

    @property
    def first_row(self) -> int:
        """Return where this rank's rows begin in a global batch."""
        return self.lanes.start * self.order.lane_rows

    @property
    def read_amplification(self) -> float:
        """Blocks that streaming reads per block: boundary blocks are read twice."""
        edges = len(self.order.sources) * (self.order.lanes - 1)
        return 1 + edges / max(1, int((self.order.counts > 0).sum()))

    @property
    def edges(self) -> list[tuple[str, RecordSpec]]:
        """Return each stage of the graph with the record that leaves it, in epoch 0."""
        label = FieldSpec("label", (), DType.INT32, Place.HOST)
        stored = FieldSpec("bytes", (None,), DType.UINT8, Place.HOST)
        on_disk = FieldSpec("bytes", (None,), DType.UINT8, Place.DISK)
        beside = (label, *(column.spec(Place.HOST) for column in self.columns))
        begin = [("volume", RecordSpec((on_disk,))), ("reader", RecordSpec((stored, *beside)))]
        if self.fields:
            names = ["decode", *(f"po.operations[{i}]" for i in range(len(self.fields) - 1))]
            steps = (tuple(one.spec(Place.HOST) for one in of_step) for of_step in self.fields)
            station = RecordSpec(self._zone_fields())
            return [*begin, *zip(names, map(RecordSpec, steps), strict=True), ("station", station)]
        decoded = self.specs[0].field("image", Place.HOST)
        return [
            *begin,
            ("decode", RecordSpec((decoded, *beside))),
            *(
                (f"{chain}[{i}]", RecordSpec((spec.field("image", Place.HOST), *beside)))
                for chain, branch in self.chains.items()
                for i, spec in enumerate(branch.specs[1:])
            ),
            ("station", RecordSpec(self._zone_fields())),
        ]

    @property
    def chains(self) -> dict[str, Branch]:
        """Return the chains in epoch 0, by their place in the configuration."""
        return {
            "po.operations" if name == IMAGES else f"po.views.{name}": branch
            for name, branch in self.chain_versions[0].branches.items()
        }

    def _zone_fields(self) -> tuple[FieldSpec, ...]:
        form = self._form(self.chain_versions[0])
        images = replace(form, finish=None).stored
        return (
            FieldSpec("labels", (self.rows,), DType.INT32, Place.ZONE),
            *(
                FieldSpec(field.name, field.stored_shape(self.rows), field.dtype, Place.ZONE)
                for field in (images, *form.fields)
            ),
        )

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Return all that order and pixels depend on, except the seed, by its key."""
        order = self.order
        subset = None if self.selection is None else self.selection.digest()
        return {
            "data": self.volumes.fingerprint(),
            "batch_size": order.batch_size,
            "lanes": order.lanes,
            "window_bytes": order.window if order.shuffle.has_windows else None,
            "shuffle": order.shuffle.value,
            "tail": order.tail.value,
            "decode": self._decode,
            **({} if self.order.group == 1 else {"sdmp_factor": self.order.group}),
            **self.phase.po.facts(),
            **({} if subset is None else {"subset": subset}),
            **({} if self.split is Split.ROWS else {"split": self.split.value}),
            **self._mix,
        }

    @property
    def _decode(self) -> list[Any]:
        decode = self.phase.decode
        if isinstance(decode, Parse):
            return [fingerprint_fact(decode.parser), decode.on_error]
        return [decode.orientation, decode.scaled, decode.on_error]

    @property
    def _mix(self) -> dict[str, Any]:
        mixing = self.order.mixing
        if mixing is None:
            return {}
        return {"mix": [list(mixing.blocks), list(mixing.weights), self.order.samples]}


def forms_of(phases: Mapping[str, PhasePlan]) -> dict[str, Form]:
    """Return the forms of all phases, by name."""
    return {name: form for plan in phases.values() for name, form in plan.forms.items()}
