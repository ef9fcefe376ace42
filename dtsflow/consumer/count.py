"""Take batches and touch none; what a speed measurement wants."""

from typing import Any

from dtsflow.arena.batch import Batch
from dtsflow.configurable import configurable
from dtsflow.consumer.consumer import Setting


@configurable
class Count:
    """Let every batch pass; the run counts images itself."""

    def open(self, setting: Setting) -> "Counting":  # noqa: ARG002  # it needs to know nothing
        """Do nothing yet."""
        return Counting()


class Counting:
    """Nothing to do: every run counts its images in its report."""

    def take(self, batch: Batch) -> None:
        """Let the batch pass."""

    def finish(self, phase: str, epoch: int) -> str:  # noqa: ARG002  # nothing to say
        """Nothing is summed up before the run ends."""
        return ""

    def results(self) -> dict[str, Any]:
        """Nothing beyond what the report says anyway."""
        return {}
