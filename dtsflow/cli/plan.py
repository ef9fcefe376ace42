"""`dtsflow plan`: print what a run would do, and stop."""

from dtsflow.build import build
from dtsflow.cli.overrides import configure
from dtsflow.plan_text import plan_text
from dtsflow.ranks.rank import Rank


def main(words: list[str]) -> int:
    """Print the plan of what `words` configure; refuse one over the memory limit."""
    configured = configure("plan", "Print the plan of a run and stop.", words)
    pipeline = build(configured.composed.values)
    pipeline.prepare()
    plan = pipeline.plan(Rank(index=0, size=1))
    print(plan_text(plan), end="")
    plan.check_memory()
    return 0
