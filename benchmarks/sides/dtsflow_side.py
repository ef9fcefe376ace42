"""dtsflow: the volume `data` through the chain or the operations of the job."""

from importlib.metadata import version
from itertools import count

from timing import job, timed

import dtsflow
from dtsflow.pipeline.plan import Plan


def main() -> None:
    """Time whole epochs; every batch is asked for, and one label of it is read."""
    asked = job()
    config = {
        "experiment": asked.experiment,
        "volume": {"path": asked.data},
        "batch_size": asked.batch,
        "workers": asked.workers,
        "tail": "drop",
        "po": getattr(asked, "po", None) or {"operations": asked.operations},
    }
    epochs = count()
    with dtsflow.open(config, *asked.overrides) as run:

        def one_pass() -> int:
            images = 0
            for batch in run.epoch(next(epochs)):
                images += len(batch)
                int(batch.labels[0])
            return images

        timed(one_pass, asked.passes, f"dtsflow {version('dtsflow')}, {_path(run.plan)}")


def _path(plan: Plan) -> str:
    core = plan.phases["train"].phase.core(plan.phases["train"].volumes)
    if core is not None:
        return f"native core, {core.cpu_level()}"
    return f"reference path, {plan.pipeline.phases['train'].decode.describe()}"


if __name__ == "__main__":
    main()
