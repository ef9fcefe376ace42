"""The plan as a page that a person reads before starting a run."""

from collections.abc import Sequence
from itertools import chain

from dtsflow.memory.drawing import human_bytes
from dtsflow.pipeline.phase_plan import PhasePlan
from dtsflow.pipeline.plan import Plan
from dtsflow.po.chain import Chain, describe
from dtsflow.po.native import divide
from dtsflow.po.records import RecordChain
from dtsflow.reader.block_io import Verify
from dtsflow.reader.order import divisors
from dtsflow.volume.data_set import Split
from dtsflow.volume.datasets.records import RecordSet

_WITHOUT_BLOCKS = {"pixels": "raw pixels", "files": "images in files", "records": "records"}
_UNCHECKED = {
    "blocks": "no index, so its blocks have no checksums: only their structure is checked",
    "files": "no checksum of its images is known: only their sizes are checked",
    "records": "no checksum of its records is known: their loader may check them",
}


def plan_text(plan: Plan) -> str:
    """Return what the run will do.

    Data, order and graph of each phase, memory and digest.
    """
    sections = [("run", _run(plan))]
    for name, phase in plan.phases.items():
        of_phase = "" if len(plan.phases) == 1 else f"{name}: "
        sections += [
            (f"{of_phase}data", _data(plan, phase)),
            (f"{of_phase}order", _order(phase)),
            (f"{of_phase}graph", _graph(plan, phase)),
        ]
    sections.append(("memory", _memory(plan)))
    lines = [f"plan of {plan.pipeline.name or 'a run without a name'}", ""]
    for title, content in sections:
        lines += [title, *(f"  {line}".rstrip() for line in content), ""]
    lines.append(f"digest {plan.digest()}")
    return "\n".join(lines) + "\n"


def _run(plan: Plan) -> list[str]:
    pipeline = plan.pipeline
    phases = "" if len(plan.phases) == 1 else f" of {' then '.join(plan.phases)}"
    steps = f"{pipeline.epochs:,} epochs{phases}, {plan.steps:,} steps each"
    lines = [f"{steps}, seed {pipeline.seed}, {plan.workers} workers"]
    rank = plan.rank
    if rank.size > 1:
        lines.append(
            f"rank {rank.index} of {rank.size}, {rank.local_size} of them on node {rank.node}"
        )
    if pipeline.max_steps is not None:
        lines.append(f"ends after {pipeline.max_steps:,} steps")
    return lines


def _data(plan: Plan, phase: PhasePlan) -> list[str]:
    volumes = phase.volumes
    blocks = int((volumes.counts > 0).sum())
    what = f"{blocks} blocks" if volumes.has_blocks else _WITHOUT_BLOCKS[volumes.layout]
    names = [str(path) for path in volumes.paths]
    shown = names if len(names) <= 4 else [*names[:2], "…", names[-1]]  # noqa: PLR2004
    mode, reason = plan.reading[phase.name]
    classes = f"{volumes.num_classes:,} classes, " if volumes.layout != "records" else ""
    lines = [
        f"{volumes.num_samples:,} samples, {classes}{what}",
        *_mix(phase),
        *_subset(phase),
        *shown,
        *_reuse(plan, phase),
    ]
    if reason:
        lines.append(f"{mode}, {reason}")
    if phase.phase.reader.verify is not Verify.NONE and not volumes.has_checksums:
        lines.append(_UNCHECKED[volumes.layout])
    return lines


def _mix(phase: PhasePlan) -> list[str]:
    order = phase.order
    if order.mixing is None:
        return []
    whole = phase.volumes.counts
    lines = [
        f"mix: {name}, {int(whole[own.start : own.stop].sum()):,} samples"
        for name, own in zip(order.mixing.names, order.sources, strict=True)
    ]
    if not order.mixing.weights:
        return lines
    shares = zip(lines, order.mixing.weights, strict=True)
    return [
        *(f"{line}, {weight} of 1,000 places" for line, weight in shares),
        f"an epoch has {order.samples:,} samples",
    ]


def _subset(phase: PhasePlan) -> list[str]:
    if phase.selection is None:
        return []
    line = f"subset: {len(phase.selection):,} of {phase.volumes.num_samples:,} samples"
    blocks = int((phase.selection.counts > 0).sum())
    return [f"{line}, in {blocks:,} blocks" if phase.volumes.has_blocks else line]


def _reuse(plan: Plan, phase: PhasePlan) -> list[str]:
    """Return how often samples are decoded, and of how many the rows are kept."""
    if (budget := phase.row_budget) is None:
        return []
    reuse, kept = phase.phase.reuse, plan.kept_samples[phase.name]
    how = (
        "cpvs: rows are made once and kept"
        if reuse.always
        else f"sdmp_factor {reuse.factor}: decoded in one epoch of {reuse.factor}, for all of them"
    )
    return [
        f"{how}; stored are {kept * budget.slots:,} of {budget.samples * budget.slots:,} rows of "
        f"{budget.row_bytes:,} bytes"
    ]


def _order(phase: PhasePlan) -> list[str]:
    order = phase.order
    windows = f", windows of up to {order.window} blocks" if phase.volumes.has_blocks else ""
    if isinstance(records := phase.volumes, RecordSet) and order.shuffle.has_windows:
        windows = f", through a buffer of {records.records.buffer:,} records"
    amplified = f"read amplification {phase.read_amplification:.2f} when streaming"
    return [
        f"{order.steps:,} steps of {order.batch_size:,} rows, tail {order.tail.value}",
        f"shuffle {order.shuffle.value}, {order.lanes} lanes of {order.lane_rows} rows{windows}",
        f"{_ranks(phase)}{f'; {amplified}' if phase.volumes.has_blocks else ''}",
    ]


def _ranks(phase: PhasePlan) -> str:
    if phase.split is Split.BROADCAST:
        return f"split broadcast: each of any number of ranks has all {phase.rows:,} rows"
    return f"ranks that can share it: {', '.join(map(str, divisors(phase.order.lanes)))}"


def _graph(plan: Plan, phase: PhasePlan) -> list[str]:
    pipeline, own = plan.pipeline, phase.phase
    how = {
        "volume": type(own.source if own.volume is None else own.volume).__name__,
        "reader": _reader(plan, phase),
        "decode": _decode(phase),
        "station": f"chunks of {phase.chunk_rows} rows, 2 zones",
    }
    how |= _operations(own.po)
    runs = _runs(phase)
    rows = [(name, how[name], runs.get(name, ""), f"-> {record}") for name, record in phase.edges]
    for i, line in enumerate(describe(own.po.batch) if isinstance(own.po, Chain) else ()):
        rows.append((f"po.batch[{i}]", line, "Python", "-> images, soft_labels (zone)"))
    rows.append(("arena", type(pipeline.arena).__name__, "", "batches are views of the zones"))
    rows.append(("consumer", type(pipeline.consumer).__name__, "", ""))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1, 2)]
    lines = [
        "  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    ]
    return [*lines, *_resolutions(phase)]


def _operations(po: Chain | RecordChain) -> dict[str, str]:
    """Return each operation in a line, by its place in the configuration."""
    described: dict[str, Sequence[object]] = {"po.operations": po.operations}
    if isinstance(po, Chain):
        described |= {f"po.views.{name}": view for name, view in po.views.items()}
    return {
        f"{place}[{i}]": line
        for place, operations in described.items()
        for i, line in enumerate(describe(operations))
    }


def _resolutions(phase: PhasePlan) -> list[str]:
    """Return what batches are from which epoch on, where that changes."""
    lines: list[str] = []
    for era in phase.chain_versions if len(phase.forms) > 1 else ():
        specs = {name: branch.out_spec for name, branch in era.branches.items()}
        shown = ", ".join(f"{name} {spec}" for name, spec in specs.items())
        if not lines or not lines[-1].endswith(f": {shown}"):
            lines.append(f"from epoch {era.first} on: {shown}")
    return lines


def _runs(phase: PhasePlan) -> dict[str, str]:
    """Return where decode and each operation run.

    That is fused in the native core, or in Python.
    """
    if phase.fields:
        return {name: "Python" for name, _ in phase.edges[2:-1]}
    names = {
        place: [f"{place}[{i}]" for i in range(len(branch.operations))]
        for place, branch in phase.chains.items()
    }
    if phase.phase.core(phase.volumes) is None:
        return dict.fromkeys(["decode", *chain.from_iterable(names.values())], "reference path")
    calls = 0
    found: dict[str, str] = {}
    if len(names) > 1:  # decoded once, for all of them
        calls, found["decode"] = 1, "native call 1"
    for place, branch in phase.chains.items():
        steps = ["decode" if not found else "", *names[place]]
        for number, part in enumerate(divide(branch.operations)):
            if part.is_native:
                calls += 1
                first = 0 if number == 0 else part.start + 1
                found |= {steps[i]: f"native call {calls}" for i in range(first, part.stop + 1)}
            else:
                found[steps[part.stop]] = "Python, splits the chain"
    return found


def _decode(phase: PhasePlan) -> str:
    if phase.volumes.layout == "pixels":
        return "raw pixels"
    return phase.phase.decode.describe()


def _reader(plan: Plan, phase: PhasePlan) -> str:
    mode, _ = plan.reading[phase.name]
    reader = phase.phase.reader
    if phase.fields:
        return mode
    unchecked = "size" if phase.volumes.layout == "files" else "structure"
    verify = reader.verify.value if phase.volumes.has_checksums else unchecked
    return f"{mode}, {reader.io_threads} IO threads, verify {verify}"


def _unplanned(plan: Plan) -> str:
    if all(phase.fields for phase in plan.phases.values()):
        return "what a loader or a parser allocates for itself and does not tell"
    return "one decoded image per worker, as large as the data set's largest"


def _memory(plan: Plan) -> list[str]:
    entries = [*plan.memory_entries.items(), ("planned in all", plan.total_bytes)]
    entries.append(("allowed (memory.limit)", plan.pipeline.memory.allowed_bytes()))
    width = max(len(name) for name, _ in entries)
    lines = [
        f"{name:<{width}}  {size:>18,} bytes  {human_bytes(size):>10}" for name, size in entries
    ]
    if plan.rank.local_size > 1:
        lines.append(
            "resident blocks are one copy for all ranks of a node, the rest is each rank's"
        )
    return [
        *lines,
        f"not planned: {_unplanned(plan)}",
        "",
        *plan.memory.table().splitlines(),
    ]
