"""`dtsflow`, whose rank 1 fails once if torchrun may start it again."""

import os
import sys
import threading

from dtsflow.arena.batch import Batch
from dtsflow.cli import entry
from dtsflow.consumer.digest import Digesting
from dtsflow.pipeline.run import Run

FAILING = 1  # the rank
AT = (1, 2)  # epoch and step of the batch with which it does


def main() -> int:
    """Run dtsflow; at first up to the failure."""
    take, init = Digesting.take, Run.__init__
    runs: list[Run] = []

    def keeping(self: Run, *arguments: object) -> None:
        init(self, *arguments)  # type: ignore[arg-type]  # whatever they are
        runs.append(self)

    def taking(self: Digesting, batch: Batch) -> None:
        take(self, batch)
        if (batch.epoch, batch.step) == AT:
            runs[0].group.gather_texts("")  # as all ranks come together in training
            if runs[0].group.rank.index == FAILING:
                raise ZeroDivisionError("the loss is not a number")
            threading.Event().wait()  # for what never comes

    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        Run.__init__ = keeping  # type: ignore[assignment,method-assign]  # in this process only
        Digesting.take = taking  # type: ignore[method-assign]
    return entry.main()


if __name__ == "__main__":
    sys.exit(main())
