"""The pipeline: the phases of a run, and the stages that they share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from dtsflow.arena.arena import ArenaConfig
from dtsflow.arena.staging import reserve_staging
from dtsflow.config.configurable import configurable
from dtsflow.consumer.consumer import Consumer
from dtsflow.memory.device_plan import Budget, device_plan
from dtsflow.memory.limit import cpu_limit
from dtsflow.memory.plan import MemoryPlan
from dtsflow.pipeline.engines import check_reuse
from dtsflow.pipeline.phase import Phase, Positive, own_lanes, record_fields
from dtsflow.pipeline.phase_plan import PhasePlan, forms_of
from dtsflow.pipeline.plan import Plan
from dtsflow.po.chain import Chain, Era
from dtsflow.po.mixup import check_rows
from dtsflow.ranks.group import Rank, RanksConfig
from dtsflow.reader.subset import select
from dtsflow.seed.address import check_field, phase_number
from dtsflow.station.double_buffer import Station
from dtsflow.volume.data_set import DataSet, Layout
from dtsflow.volume.datasets.records import RecordSet

# Rows of JPEGs a worker fills at a time, at most: a NumPy call costs as much for one
# row as for all, but in the middle of a chunk no worker can be stopped.
CHUNK_ROWS = 64
RECORD_CHUNK_ROWS = 1024  # most are short, and a parser is called once a chunk

Auto = Literal["auto"]
AUTO, NEVER = "auto", "never"  # what `resume` is, if no path


@configurable
class Pipeline:
    """A configured run: its phases, then what they share, in flow order.

    Attributes:
        phases: The phases of an epoch in their order; without `phases` in the
            configuration there is one, `train`, of the stages at its top.
        name: Name of the run folder; without it the library writes none.
        seed: Seed of every random number, 0 ≤ seed < 2⁶⁴.
        epochs: Passes over the data, through all phases each.
        workers: Threads that decode and preprocess; `auto` is this process's share of
            the CPUs that it and the other ranks of its node may use.
        max_steps: `for batch in run`, and so `dtsflow run`, ends after so many batches.
        resume: Where the run begins. `never`: at the beginning. `auto`: where the
            unfinished run of the same name was stopped, if there is one. Else a run
            folder or its state.json.
    """

    phases: Annotated[dict[str, Phase], Field(min_length=1)]
    station: Station
    arena: ArenaConfig
    consumer: Consumer
    ranks: RanksConfig
    memory: Budget
    name: Annotated[str, Field(min_length=1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] = 0
    epochs: Annotated[int, Field(ge=1, lt=1 << 32)] = 1
    workers: Annotated[int, Field(ge=1, le=1024, strict=True)] | Auto = "auto"
    max_steps: Positive | None = None
    resume: Annotated[str, Field(min_length=1)] = NEVER

    def prepare(self) -> None:
        """Make what has to exist on disk before planning; usually nothing."""
        for phase in self.phases.values():
            phase.source.prepare()

    def plan(self, rank: Rank, cache: Path | None = None) -> Plan:
        """Work out every spec, span and order of the run for one rank.

        Reads headers and block counts, for a subset also labels; opens nothing for
        good, allocates nothing. `cache` is a folder for what takes long to find out.

        Raises:
            PlanError: The parts do not fit together.
            VolumeError: A data set is not what it should be.
        """
        check_field("seed", self.seed)
        check_field("epoch", self.epochs - 1)
        workers = self._workers(rank)
        phases = {name: self._phase_plan(name, rank, workers, cache) for name in self.phases}
        return Plan(
            pipeline=self,
            rank=rank,
            phases=phases,
            memory=self._memory_plan(phases),
            workers=workers,
        )

    def _phase_plan(self, name: str, rank: Rank, workers: int, cache: Path | None) -> PhasePlan:
        phase = self.phases[name]
        volumes = phase.reader.arrange(phase.source.scan(cache), cache)
        where = "po.operations" if len(self.phases) == 1 else f"phases.{name}.po.operations"
        fields = record_fields(phase.decode, phase.po, volumes, where)
        phase.check_columns(volumes)
        check_field("block", volumes.num_blocks)  # more than the windows of any lane
        selection = select(volumes, phase.reader.subset)
        number = phase_number(name, self.phases)
        order = phase.order(volumes, selection, seed=self.seed, number=number)
        if isinstance(phase.po, Chain) and phase.po.batch:
            check_rows(order.lane_rows)
        check_field("id", volumes.num_samples * order.rounds)
        eras = self._eras(name, volumes)
        if not fields:
            check_reuse(phase.reuse, order, eras, "" if len(self.phases) == 1 else name)
        lanes = own_lanes(volumes, order, rank)
        rows = len(lanes) * order.lane_rows
        return PhasePlan(
            name=name,
            phase=phase,
            station=self.station,
            volumes=volumes,
            order=order,
            lanes=lanes,
            eras=eras,
            chunk_rows=_chunk_rows(rows, workers, volumes.layout),
            selection=selection,
            arena_finishes=self.arena.finishes,
            fields=fields,
        )

    def _eras(self, name: str, volumes: DataSet) -> tuple[Era, ...]:
        chain = self.phases[name].po
        if isinstance(volumes, RecordSet):
            return (Era(0, {}, ()),)
        assert isinstance(chain, Chain)  # refused otherwise
        where = "po" if len(self.phases) == 1 else f"phases.{name}.po"
        return tuple(
            Era(
                first=epoch,
                branches=chain.branches(volumes.image, epoch, where=where),
                batch=chain.batch_operations(epoch),
            )
            for epoch in chain.changes
        )

    def _memory_plan(self, phases: Mapping[str, PhasePlan]) -> MemoryPlan:
        """The two zones, each large enough for every phase, and what is declared."""
        forms = forms_of(phases)
        inputs = [form.buffer for form in forms.values()]
        return device_plan(self.memory, inputs, lambda plan: reserve_staging(plan, forms))

    def _workers(self, rank: Rank) -> int:
        if self.workers != "auto":
            return self.workers
        # IO threads wait for the disk and need next to no CPU, so none is set aside.
        return rank.cpu_share or max(1, cpu_limit() // rank.local_size)


def _chunk_rows(rows: int, workers: int, layout: Layout) -> int:
    """Rows that a worker fills at a time; no pixel depends on it."""
    if layout == "pixels":
        # All cost alike, a microsecond each: as few chunks as keep both zones in work.
        return -(-rows // -(-workers // 2))
    # JPEGs differ: two chunks a worker and batch, so that none waits long for another.
    most = RECORD_CHUNK_ROWS if layout == "records" else CHUNK_ROWS
    return max(1, min(most, rows // (2 * workers)))
