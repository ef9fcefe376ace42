"""`dtsflow plan`: print what a run would do, and stop.

With simulated ranks it prints a page: what many ranks would read and hold.
"""

from collections.abc import Callable

import numpy as np

from dtsflow.cli.overrides import configure
from dtsflow.errors import PlanError
from dtsflow.memory.drawing import human_bytes
from dtsflow.pipeline.build import build
from dtsflow.pipeline.explain import plan_text
from dtsflow.pipeline.phase_plan import PhasePlan
from dtsflow.pipeline.plan import Plan
from dtsflow.pipeline.planner import plan_run
from dtsflow.ranks.config import Auto
from dtsflow.ranks.group import Rank
from dtsflow.reader.order import Ints
from dtsflow.reader.simulate import Simulation
from dtsflow.volume.data_set import Split
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.header import BLOCK_BYTES

Lines = list[tuple[str, str]]

_OF_NODE = "resident blocks"  # of a phase, if there are several: what a node has once


def simulated_text(plan: Plan, per_node: int) -> str:
    """Return what the ranks of a run do in an epoch.

    `plan` is that of the first of them.
    """
    size, on_node = plan.rank.size, plan.rank.local_size
    nodes = -(-size // per_node)
    sections: list[tuple[str, Lines]] = [
        (f"simulated: {size:,} ranks on {nodes:,} nodes, {on_node:,} on each", [])
    ]
    for name, phase in plan.phases.items():
        if phase.order.mixing is not None:
            raise PlanError(
                f"ranks.simulate does not know what a mix reads, and phase {name} has one. Plan "
                "its data sets one by one."
            )
        if phase.split is Split.BROADCAST:
            sections.append((name, _broadcast(phase)))
            continue
        simulation = Simulation(phase.order, size, per_node, _block_bytes(phase))
        delivered = _delivered(phase, simulation)
        sections.append((name, [*delivered, *_read(plan.reading[name][0], simulation)]))
    sections.append(("memory", _memory(plan)))
    return "\n\n".join(_drawn(title, lines) for title, lines in sections)


def _drawn(title: str, lines: Lines) -> str:
    return "\n".join([title, *(f"  {name:<18} {text}" for name, text in lines)])


def _block_bytes(phase: PhasePlan) -> int:
    volumes = phase.volumes
    return volumes.span(0).nbytes if isinstance(volumes, VolumeSet) else BLOCK_BYTES


def _delivered(phase: PhasePlan, simulation: Simulation) -> Lines:
    order = phase.order
    return [
        ("steps of an epoch", f"{order.steps:,}"),
        ("rows of a batch", f"{phase.rows:,} a rank, {order.batch_size:,} in all"),
        ("samples of a rank", _spread(simulation.rank_samples, lambda number: f"{number:,}")),
    ]


def _broadcast(phase: PhasePlan) -> Lines:
    order = phase.order
    samples = Simulation(order, 1, 1).rank_samples
    return [
        ("steps of an epoch", f"{order.steps:,}"),
        ("rows of a batch", f"{phase.rows:,} on each rank, all of them (split broadcast)"),
        ("samples of a rank", f"{int(samples[0]):,}"),
        ("read", "by each rank all records"),
    ]


def _read(mode: str, simulation: Simulation) -> Lines:
    """Return what an epoch reads, the first one if blocks stay in memory."""
    if mode == "raw":
        return [("read", "by each rank the files of its own samples")]
    if mode == "streaming":
        of_nodes, when = simulation.node_streamed_bytes, "in every epoch"
        of_ranks = [("read by a rank", _spread(simulation.streamed_bytes, human_bytes))]
    else:
        of_nodes, when = np.full(simulation.nodes, simulation.data_bytes), "in the first epoch"
        of_ranks = []
    total, stored = int(of_nodes.sum()), simulation.data_bytes
    return [
        ("reader", f"{mode}: reads {when}"),
        *of_ranks,
        ("read by a node", _spread(of_nodes, human_bytes)),
        ("read by all", f"{human_bytes(total)}, amplification {total / stored:.3f}"),
    ]


def _spread(values: Ints, shown: Callable[[int], str]) -> str:
    """Return the least and the most, and how far the most is above the mean."""
    least, most = int(values.min()), int(values.max())
    if least == most:
        return shown(most)
    above = most / float(values.mean()) - 1
    return f"{shown(least)} to {shown(most)}, the most {above:.2%} above the mean"


def _memory(plan: Plan) -> Lines:
    entries = plan.memory_entries
    once = sum(size for name, size in entries.items() if name.startswith(_OF_NODE))
    own = sum(entries.values()) - once
    return [
        ("of a rank alone", human_bytes(own)),
        ("once on a node", f"{human_bytes(once)}{' of blocks' if once else ''}"),
        ("of a node", human_bytes(own * plan.rank.local_size + once)),
    ]


def main(words: list[str]) -> int:
    """Print the plan of what `words` configure; refuse one over the memory limit.

    With `ranks.simulate` also what all those ranks would read; the limit is then that
    of other machines, and refuses nothing.
    """
    configured = configure("plan", "Print the plan of a run and stop.", words)
    pipeline = build(configured.composed.values)
    pipeline.prepare()
    ranks = pipeline.ranks
    if isinstance(ranks, Auto) and (simulated := ranks.simulated()) is not None:
        plan = plan_run(pipeline, simulated)
        print(plan_text(plan), end="")
        print(f"\n{simulated_text(plan, ranks.per_node)}")
        return 0
    plan = plan_run(pipeline, Rank(index=0, size=1))
    print(plan_text(plan), end="")
    plan.check_memory()
    return 0
