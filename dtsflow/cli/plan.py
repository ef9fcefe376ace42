"""`dtsflow plan`: print what a run would do, and stop."""

from dtsflow.build import build
from dtsflow.cli.overrides import configure
from dtsflow.cli.simulated import simulated_text
from dtsflow.plan_text import plan_text


def main(words: list[str]) -> int:
    """Print the plan of what `words` configure; refuse one over the memory limit.

    With `ranks.simulate` also what all those ranks would read; the limit is then that
    of other machines, and refuses nothing.
    """
    configured = configure("plan", "Print the plan of a run and stop.", words)
    pipeline = build(configured.composed.values)
    pipeline.prepare()
    if (simulated := pipeline.ranks.simulated()) is not None:
        plan = pipeline.plan(simulated)
        print(plan_text(plan), end="")
        print(f"\n{simulated_text(plan, pipeline.ranks.per_node)}")
        return 0
    plan = pipeline.plan(pipeline.ranks.start())
    print(plan_text(plan), end="")
    pipeline.memory.check(plan.memory_entries)
    return 0
