"""The plan: everything a run will do, worked out before a byte is allocated."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dtsflow.about import __version__
from dtsflow.errors import PlanError
from dtsflow.memory.plan import MemoryPlan
from dtsflow.phase_plan import PhasePlan, forms_of
from dtsflow.ranks.rank import Rank
from dtsflow.reader.reader import Mode
from dtsflow.state import DIGITS, State

if TYPE_CHECKING:
    from pathlib import Path

    from dtsflow.pipeline import Pipeline
    from dtsflow.run import Run
    from dtsflow.telemetry.folder import RunFolder

# Raise it whenever the same configuration comes to mean another order or other pixels.
ALGORITHM = 1

BESIDE_ROW_BYTES = 1 + 8  # `valid` and `sample_ids` of one row, in each of the two zones

# What each phase that reads in this mode keeps in memory for itself.
_HELD: dict[Mode, str] = {"resident": "resident blocks", "raw": "raw images"}


@dataclass(frozen=True)
class Plan:
    """Every spec, span and order of a run, for one rank.

    Attributes:
        pipeline: What was planned.
        rank: For whom.
        phases: The plan of each phase, in the order an epoch has them.
        memory: The device memory plan, which all phases share.
        workers: Threads that fill batches.
    """

    pipeline: "Pipeline"
    rank: Rank
    phases: Mapping[str, PhasePlan]
    memory: MemoryPlan
    workers: int

    def open(
        self,
        folder: "RunFolder | None" = None,
        start: State | None = None,
        origin: "Path | None" = None,
    ) -> "Run":
        """Allocate memory, start threads and begin to read.

        With `start` the run goes on there; it must be a state of this plan. `origin` is
        the folder where it was found.

        Raises:
            MemoryPlanError: The plan needs more memory than `memory.limit`.
        """
        from dtsflow.run import Run  # noqa: PLC0415  # a run knows its plan, so not the reverse

        self.pipeline.memory.check(self.memory_entries)
        return Run(self, folder, start, origin)

    def phase(self, name: str) -> PhasePlan:
        """The plan of the phase `name`.

        Raises:
            PlanError: There is none.
        """
        if name not in self.phases:
            known = ", ".join(map(repr, self.phases))
            raise PlanError(f"There is no phase {name!r}; this run has {known}.")
        return self.phases[name]

    @property
    def steps(self) -> int:
        """Global batches in an epoch, of all phases together."""
        return sum(phase.order.steps for phase in self.phases.values())

    @cached_property
    def beginning(self) -> State:
        """The state of a run of which nothing was handed out yet."""
        return State(next(iter(self.phases)), 0, 0, self.fingerprint())

    def after(self, phase: str, epoch: int) -> tuple[str, int]:
        """The phase that follows `phase` of `epoch`, and its epoch."""
        names = list(self.phases)
        turn = names.index(phase) + 1
        return (names[turn], epoch) if turn < len(names) else (names[0], epoch + 1)

    @cached_property
    def memory_entries(self) -> dict[str, int]:
        """Bytes that the run will hold, by what they are for."""
        entries = dict(self._shared_entries)
        if windows := self.windows_bytes:
            entries["streaming windows"] = windows
        for name, phase in self.phases.items():
            if held := _HELD.get(mode := self.reading[name][0]):
                of_phase = "" if len(self.phases) == 1 else f" of {name}"
                entries[f"{held}{of_phase}"] = phase.planned_bytes(mode)
        return entries

    @cached_property
    def reading(self) -> dict[str, tuple[Mode, str]]:
        """By phase, how blocks are held in memory, and why.

        No sample or order depends on it. Phases choose in their order, each from what
        those before it leave.

        Raises:
            PlanError: A mode was asked for that cannot be.
        """
        room = self.pipeline.memory.allowed_bytes() - sum(self._shared_entries.values())
        windows = 0
        found: dict[str, tuple[Mode, str]] = {}
        for name, plan in self.phases.items():
            reader = plan.phase.reader
            mode, why = reader.choose(plan.volumes, plan.order, plan.lanes, max(0, room))
            found[name] = mode, why
            held = plan.planned_bytes(mode)
            if mode == "streaming":  # one allocation serves all that stream
                held, windows = max(0, held - windows), max(held, windows)
            room -= held
        return found

    @property
    def windows_bytes(self) -> int:
        """Bytes of the windows that all streaming phases share; 0 without such."""
        streaming = [
            plan for name, plan in self.phases.items() if self.reading[name][0] == "streaming"
        ]
        return max((plan.planned_bytes("streaming") for plan in streaming), default=0)

    @property
    def _shared_entries(self) -> dict[str, int]:
        phases = self.phases.values()
        scratch = max(plan.scratch_bytes(self.workers) for plan in phases)
        return {
            **self._arena_entries,
            **({"scratch of views and mixing": scratch} if scratch else {}),
            "rows beside the zones": 2 * max(plan.rows for plan in phases) * BESIDE_ROW_BYTES,
            "order of an epoch": max(plan.order.planned_bytes for plan in phases),
        }

    @property
    def total_bytes(self) -> int:
        """All bytes of `memory_entries`."""
        return sum(self.memory_entries.values())

    @property
    def _arena_entries(self) -> dict[str, int]:
        """What the arena holds on the host: all of the plan, or zones to copy from."""
        on_host = self.pipeline.arena.host_bytes(self.memory, forms_of(self.phases))
        if on_host != self.memory.total_bytes:
            return {"pinned zones": on_host}
        zones = 2 * self.memory.zone_bytes
        declared = on_host - zones
        return {"zones": zones, **({"declared tensors": declared} if declared else {})}

    def fingerprint(self) -> dict[str, str]:
        """What a run that goes on must have as it was, each as a short digest.

        Workers, ranks, the reader's mode, memory and machine have no part in it.
        """
        return {
            name: hashlib.sha256(json.dumps(item).encode()).hexdigest()[:DIGITS]
            for name, item in self._facts.items()
        }

    @property
    def _facts(self) -> dict[str, Any]:
        """By key, what all share and what each phase has there."""
        keys = dict.fromkeys(key for plan in self.phases.values() for key in plan.facts)
        by_phase = {
            key: {name: plan.facts.get(key) for name, plan in self.phases.items()} for key in keys
        }
        return {"seed": self.pipeline.seed, **by_phase, "algorithm": ALGORITHM}

    def digest(self) -> str:
        """SHA-256 over what must agree for two ranks to deliver parts of one run."""
        facts = {"library": __version__, **self._facts, "memory": self.memory.digest()}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
