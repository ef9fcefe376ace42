"""What each rank of the tests of runs does: `python running.py DEED ODD OVERRIDE…`."""

import os
import sys

import dtsflow
from dtsflow.consumer.consumer import PhaseSetting, Setting
from dtsflow.pipeline.run import Run

STEP = 5  # the batch at which it happens


def main(deed: str, odd: str, *overrides: str) -> None:
    """Run what `overrides` say, with one more of them, `odd`, on rank 1."""
    rank = int(os.environ.get("PMI_RANK", os.environ.get("RANK", "0")))
    more = [odd] if odd and rank == 1 else []
    with dtsflow.open(*overrides, *more) as run:
        sink = run.plan.pipeline.consumer.open(setting(run))
        for number, batch in enumerate(run):
            sink.take(batch)
            if number == STEP and deed == "stop":
                run.stop()
            if number == STEP and deed == "raise" and rank == 1:
                raise ZeroDivisionError("the loss is not a number")
        run.results.update(sink.results())


def setting(run: Run) -> Setting:
    """What a digest needs to know."""
    phases = {name: PhaseSetting(plan.order.phase) for name, plan in run.plan.phases.items()}
    return Setting(folder=None, phases=phases)


if __name__ == "__main__":
    main(*sys.argv[1:])
