"""The planner: from a pipeline to the plan of a run, for one rank."""

from collections.abc import Mapping
from pathlib import Path

from dtsflow.arena.staging import reserve_staging
from dtsflow.memory.device_plan import Budget, device_plan
from dtsflow.memory.limit import cpu_limit
from dtsflow.memory.plan import MemoryPlan
from dtsflow.pipeline.engines import check_reuse
from dtsflow.pipeline.phase import own_lanes, record_fields
from dtsflow.pipeline.phase_plan import PhasePlan, forms_of
from dtsflow.pipeline.pipeline import Pipeline
from dtsflow.pipeline.plan import Plan
from dtsflow.po.chain import Chain, ChainVersion
from dtsflow.po.mixup import check_rows
from dtsflow.ranks.group import Rank
from dtsflow.reader.subset import select
from dtsflow.seed.address import check_field, phase_number
from dtsflow.volume.data_set import DataSet, Layout
from dtsflow.volume.datasets.records import RecordSet

# Rows of JPEGs a worker fills at a time, at most: a NumPy call costs as much for one
# row as for all, but in the middle of a chunk no worker can be stopped.
CHUNK_ROWS = 64
RECORD_CHUNK_ROWS = 1024  # most are short, and a parser is called once a chunk


def plan_run(pipeline: Pipeline, rank: Rank, cache: Path | None = None) -> Plan:
    """Work out every spec, span and order of the run for one rank.

    Reads headers and block counts, for a subset also labels; opens nothing for
    good, allocates nothing. `cache` is a folder for what takes long to find out.

    Raises:
        PlanError: The parts do not fit together.
        VolumeError: A data set is not what it should be.
    """
    check_field("seed", pipeline.seed)
    check_field("epoch", pipeline.epochs - 1)
    workers = _workers(pipeline, rank)
    phases = {name: _plan_phase(pipeline, name, rank, workers, cache) for name in pipeline.phases}
    return Plan(
        pipeline=pipeline,
        rank=rank,
        phases=phases,
        memory=_plan_memory(pipeline.memory, phases),
        workers=workers,
    )


def _plan_phase(
    pipeline: Pipeline, name: str, rank: Rank, workers: int, cache: Path | None
) -> PhasePlan:
    phase = pipeline.phases[name]
    volumes = phase.reader.arrange(phase.source.scan(cache), cache)
    where = "po.operations" if len(pipeline.phases) == 1 else f"phases.{name}.po.operations"
    fields = record_fields(phase.decode, phase.po, volumes, where)
    phase.check_columns(volumes)
    check_field("block", volumes.num_blocks)  # more than the windows of any lane
    selection = select(volumes, phase.reader.subset)
    number = phase_number(name, pipeline.phases)
    order = phase.order(volumes, selection, seed=pipeline.seed, number=number)
    if isinstance(phase.po, Chain) and phase.po.batch:
        check_rows(order.lane_rows)
    check_field("id", volumes.num_samples * order.rounds)
    chain_versions = _chain_versions(pipeline, name, volumes)
    if not fields:
        check_reuse(phase.reuse, order, chain_versions, "" if len(pipeline.phases) == 1 else name)
    lanes = own_lanes(volumes, order, rank)
    rows = len(lanes) * order.lane_rows
    return PhasePlan(
        name=name,
        phase=phase,
        station=pipeline.station,
        volumes=volumes,
        order=order,
        lanes=lanes,
        chain_versions=chain_versions,
        chunk_rows=_chunk_rows(rows, workers, volumes.layout),
        selection=selection,
        arena_finishes=pipeline.arena.finishes,
        fields=fields,
    )


def _chain_versions(pipeline: Pipeline, name: str, volumes: DataSet) -> tuple[ChainVersion, ...]:
    chain = pipeline.phases[name].po
    if isinstance(volumes, RecordSet):
        return (ChainVersion(0, {}, ()),)
    assert isinstance(chain, Chain)  # refused otherwise
    where = "po" if len(pipeline.phases) == 1 else f"phases.{name}.po"
    return tuple(
        ChainVersion(
            first=epoch,
            branches=chain.branches(volumes.image, epoch, where=where),
            batch=chain.batch_operations(epoch),
        )
        for epoch in chain.changes
    )


def _plan_memory(declared: Budget, phases: Mapping[str, PhasePlan]) -> MemoryPlan:
    """Return the two zones, each large enough for every phase, and what is declared."""
    forms = forms_of(phases)
    inputs = [form.buffer for form in forms.values()]
    return device_plan(declared, inputs, lambda plan: reserve_staging(plan, forms))


def _workers(pipeline: Pipeline, rank: Rank) -> int:
    if pipeline.workers != "auto":
        return pipeline.workers
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
