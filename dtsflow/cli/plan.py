"""`dtsflow plan`: print what a run would do, and stop."""

from dtsflow.build import build
from dtsflow.cli.overrides import configure
from dtsflow.plan_text import plan_text


def main(words: list[str]) -> int:
    """Print the plan of what `words` configure; refuse one over the memory limit."""
    configured = configure("plan", "Print the plan of a run and stop.", words)
    pipeline = build(configured.composed.values)
    pipeline.prepare()
    plan = pipeline.plan(pipeline.ranks.start())
    print(plan_text(plan), end="")
    pipeline.memory.check(plan.memory_entries)
    return 0
