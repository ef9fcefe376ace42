"""The plan as a page that a person reads before starting a run."""

from dtsflow.memory.drawing import human_bytes
from dtsflow.plan import Plan
from dtsflow.po.fused import divide
from dtsflow.reader.block_reader import Verify
from dtsflow.reader.order import divisors


def plan_text(plan: Plan) -> str:
    """What the run will do: data, order, graph with specs, memory and digest."""
    sections = [
        ("data", _data(plan)),
        ("order", _order(plan)),
        ("graph", _graph(plan)),
        ("memory", _memory(plan)),
    ]
    lines = [f"plan of {plan.pipeline.name or 'a run without a name'}", ""]
    for title, content in sections:
        lines += [title, *(f"  {line}".rstrip() for line in content), ""]
    lines.append(f"digest {plan.digest()}")
    return "\n".join(lines) + "\n"


def _data(plan: Plan) -> list[str]:
    volumes = plan.volumes
    blocks = int((volumes.counts > 0).sum())
    what = f"{blocks} blocks" if volumes.layout == "blocks" else "raw pixels"
    names = [str(file.path) for file in volumes.files]
    shown = names if len(names) <= 4 else [*names[:2], "…", names[-1]]  # noqa: PLR2004
    mode, reason = plan.reading
    lines = [
        f"{volumes.num_samples:,} samples, {volumes.num_classes:,} classes, {what}",
        *_mix(plan),
        *_subset(plan),
        *shown,
    ]
    if reason:
        lines.append(f"{mode}, {reason}")
    if plan.pipeline.reader.verify is not Verify.NONE and not volumes.has_checksums:
        lines.append("no index, so its blocks have no checksums: only their structure is checked")
    return lines


def _mix(plan: Plan) -> list[str]:
    order = plan.order
    if order.mixing is None:
        return []
    whole = plan.volumes.counts
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


def _subset(plan: Plan) -> list[str]:
    if plan.selection is None:
        return []
    line = f"subset: {len(plan.selection):,} of {plan.volumes.num_samples:,} samples"
    blocks = int((plan.selection.counts > 0).sum())
    return [f"{line}, in {blocks:,} blocks" if plan.volumes.layout == "blocks" else line]


def _order(plan: Plan) -> list[str]:
    order, pipeline = plan.order, plan.pipeline
    sizes = divisors(order.lanes)
    lines = [
        f"{pipeline.epochs:,} epochs of {order.steps:,} steps of {order.batch_size:,} rows, "
        f"tail {order.tail.value}, seed {order.seed}",
        f"shuffle {order.shuffle.value}, {order.lanes} lanes of {order.lane_rows} rows, "
        f"windows of up to {order.window} blocks",
        f"ranks that can share it: {', '.join(map(str, sizes))}; "
        f"read amplification {plan.read_amplification:.2f} when streaming",
    ]
    if pipeline.max_steps is not None:
        lines.append(f"ends after {pipeline.max_steps:,} steps")
    return lines


def _graph(plan: Plan) -> list[str]:
    pipeline = plan.pipeline
    how = {
        "volume": type(pipeline.source).__name__,
        "reader": _reader(plan),
        "decode": _decode(plan),
        "station": f"{plan.workers} workers, chunks of {plan.chunk_rows} rows, 2 zones",
    }
    operations = pipeline.po.describe()
    how |= {f"po.operations[{i}]": line for i, line in enumerate(operations)}
    runs = _runs(plan)
    rows = [(name, how[name], runs.get(name, ""), f"-> {record}") for name, record in plan.edges]
    rows.append(("arena", type(pipeline.arena).__name__, "", "batches are views of the zones"))
    rows.append(("consumer", type(pipeline.consumer).__name__, "", ""))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1, 2)]
    return [
        "  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    ]


def _runs(plan: Plan) -> dict[str, str]:
    """Where decode and each operation run: fused in the native core, or in Python."""
    pipeline = plan.pipeline
    names = ["decode", *(f"po.operations[{i}]" for i in range(len(pipeline.po.operations)))]
    if pipeline.core(plan.volumes) is None:
        return dict.fromkeys(names, "reference path")
    found: dict[str, str] = {}
    parts = divide(pipeline.po.operations)
    for number, part in enumerate(parts):
        if part.is_native:
            first = 0 if number == 0 else part.start + 1
            own = range(first, part.stop + 1)
            found |= {names[i]: f"native call {number // 2 + 1}" for i in own}
        else:
            found[names[part.stop]] = "Python, splits the chain"
    return found


def _decode(plan: Plan) -> str:
    if plan.volumes.layout == "pixels":
        return "raw pixels"
    return plan.pipeline.decode.describe()


def _reader(plan: Plan) -> str:
    mode, _ = plan.reading
    reader = plan.pipeline.reader
    verify = reader.verify.value if plan.volumes.has_checksums else "structure"
    return f"{mode}, {reader.io_threads} IO threads, verify {verify}"


def _memory(plan: Plan) -> list[str]:
    entries = [*plan.memory_entries.items(), ("planned in all", plan.total_bytes)]
    entries.append(("allowed (memory.limit)", plan.pipeline.memory.allowed_bytes()))
    width = max(len(name) for name, _ in entries)
    lines = [
        f"{name:<{width}}  {size:>18,} bytes  {human_bytes(size):>10}" for name, size in entries
    ]
    return [
        *lines,
        "not planned: one decoded image per worker, as large as the data set's largest",
        "",
        *plan.memory.table().splitlines(),
    ]
