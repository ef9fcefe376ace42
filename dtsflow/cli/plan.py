"""`dtsflow plan`: print what a run would do, and stop."""

from dtsflow.build import build
from dtsflow.cli.overrides import configure
from dtsflow.cli.simulated import simulated_text
from dtsflow.plan_text import plan_text
from dtsflow.ranks.auto import Auto
from dtsflow.ranks.rank import Rank


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
        plan = pipeline.plan(simulated)
        print(plan_text(plan), end="")
        print(f"\n{simulated_text(plan, ranks.per_node)}")
        return 0
    plan = pipeline.plan(Rank(index=0, size=1))
    print(plan_text(plan), end="")
    plan.check_memory()
    return 0
