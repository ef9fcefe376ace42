"""The pipeline: the phases of a run, and the stages that they share."""

from typing import Annotated, Literal

from pydantic import Field

from dtsflow.arena.arena import ArenaConfig
from dtsflow.config.configurable import configurable
from dtsflow.consumer.consumer import Consumer
from dtsflow.memory.device_plan import Budget
from dtsflow.pipeline.phase import Phase, Positive
from dtsflow.ranks.group import RanksConfig
from dtsflow.station.double_buffer import Station

Auto = Literal["auto"]
AUTO, NEVER = "auto", "never"  # what `resume` is, if no path


@configurable
class Pipeline:
    """A configured run: its phases, then what they share, in flow order.

    Attributes:
        phases: The phases of an epoch in their order; without `phases` in the
            configuration there is one, `train`, of the stages at its top.
        name: Name of the run folder; without it the library writes none.
        seed: Seed of every random number, 0 ≤ seed < 2⁶⁴.
        epochs: Passes over the data, through all phases each.
        workers: Threads that decode and preprocess; `auto` is this process's share of
            the CPUs that it and the other ranks of its node may use.
        max_steps: `for batch in run`, and so `dtsflow run`, ends after so many batches.
        resume: Where the run begins. `never`: at the beginning. `auto`: where the
            unfinished run of the same name was stopped, if there is one. Else a run
            folder or its state.json.
    """

    phases: Annotated[dict[str, Phase], Field(min_length=1)]
    station: Station
    arena: ArenaConfig
    consumer: Consumer
    ranks: RanksConfig
    memory: Budget
    name: Annotated[str, Field(min_length=1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] = 0
    epochs: Annotated[int, Field(ge=1, lt=1 << 32)] = 1
    workers: Annotated[int, Field(ge=1, le=1024, strict=True)] | Auto = "auto"
    max_steps: Positive | None = None
    resume: Annotated[str, Field(min_length=1)] = NEVER

    def prepare(self) -> None:
        """Make what has to exist on disk before planning; usually nothing."""
        for phase in self.phases.values():
            phase.source.prepare()
