"""The plan: everything a run will do, worked out before a byte is allocated."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dtsflow._version import __version__
from dtsflow.errors import ConfigError, PlanError
from dtsflow.memory.plan import MemoryPlan
from dtsflow.pipeline.checkpoint import DIGITS, State, not_a_state
from dtsflow.pipeline.phase_plan import PhasePlan, forms_of
from dtsflow.pipeline.pipeline import Pipeline
from dtsflow.ranks.group import Rank
from dtsflow.reader.reader import Mode
from dtsflow.volume.datasets.mixed import MixedSet

# Raise it whenever the same configuration comes to mean another order or other pixels.
ALGORITHM = 1

SHOWN = 60  # characters: what is longer is compared as a digest

BESIDE_ROW_BYTES = 1 + 8  # `valid` and `sample_ids` of one row, in each of the two zones

ROWS_SHARE = 0.75  # of the memory that is left: the program itself needs some, too

SHARED: Mode = "resident"  # what the ranks of a node keep together

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
        agreed: What all ranks take for `reading`; None: each decides for itself.
    """

    pipeline: Pipeline
    rank: Rank
    phases: Mapping[str, PhasePlan]
    memory: MemoryPlan
    workers: int
    agreed: Mapping[str, tuple[Mode, str]] | None = None

    def check_memory(self) -> None:
        """Refuse what the ranks of this node need together, if that is too much.

        Raises:
            MemoryPlanError: It is more than `memory.limit`.
        """
        self.pipeline.memory.check(self._on_node(self.memory_entries))

    def _on_node(self, entries: Mapping[str, int]) -> dict[str, int]:
        """Return what all ranks of this node take together."""
        shared = {self._entry(name) for name, (mode, _) in self.reading.items() if mode == SHARED}
        return {
            name: size if name in shared else size * self.rank.local_size
            for name, size in entries.items()
        }

    def phase(self, name: str) -> PhasePlan:
        """Return the plan of the phase `name`.

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
        """Return the state of a run of which nothing was handed out yet."""
        return State(next(iter(self.phases)), 0, 0, self.fingerprint())

    def check_state(self, state: State, where: object) -> None:
        """Refuse to go on from `state`, found at `where`, if that were another run.

        Raises:
            ConfigError: Something that the order or the pixels depend on is another;
                names it. Or the plan has no such phase or step.
        """
        now = self.fingerprint()
        names = {**now, **state.fingerprint}  # also what only another version knows
        if changed := [name for name in names if now.get(name) != state.fingerprint.get(name)]:
            raise ConfigError(
                f"resume: {where} is the state of a run with another {', '.join(changed)}: its "
                "batches would not be the ones that are left. Configure what it had (config.yaml "
                "beside it says so), or start anew with resume=never."
            )
        if state.phase not in self.phases:
            raise not_a_state(where, f"there is no phase {state.phase!r}")
        steps = self.phases[state.phase].order.steps
        if state.step >= steps:
            raise not_a_state(where, f"step {state.step} of an epoch with {steps}")

    def turn(self, state: State) -> tuple[int, int, int]:
        """Return what orders the states of this plan: the less, the earlier."""
        return state.epoch, list(self.phases).index(state.phase), state.step

    def after(self, phase: str, epoch: int) -> tuple[str, int]:
        """Return the phase that follows `phase` of `epoch`, and its epoch."""
        names = list(self.phases)
        turn = names.index(phase) + 1
        return (names[turn], epoch) if turn < len(names) else (names[0], epoch + 1)

    @cached_property
    def memory_entries(self) -> dict[str, int]:
        """Return the bytes that the run will hold, by what they are for."""
        rows = {
            self._of_phase("stored rows", name): self.phases[name].row_bytes(samples)
            for name, samples in self.kept_samples.items()
        }
        return {**self._entries_without_rows, **rows}

    @cached_property
    def kept_samples(self) -> Mapping[str, int]:
        """By phase that reuses rows, of how many samples of this rank they are kept.

        With `store_bytes: auto` they take up to three quarters of what `memory.limit`
        leaves beside all else, a phase after the other.
        """
        room = self.pipeline.memory.allowed_bytes() - sum(
            self._on_node(self._entries_without_rows).values()
        )
        found: dict[str, int] = {}
        for name, plan in self.phases.items():
            if (budget := plan.row_budget) is None:
                continue
            asked = plan.phase.store_bytes
            most = ROWS_SHARE * max(0, room) // self.rank.local_size if asked == "auto" else asked
            found[name] = budget.within(int(most))
            room -= plan.row_bytes(found[name]) * self.rank.local_size
        return found

    @cached_property
    def _entries_without_rows(self) -> dict[str, int]:
        entries = dict(self._shared_entries)
        if windows := self.windows_bytes:
            entries["streaming windows"] = windows
        for name, phase in self.phases.items():
            mode, _ = self.reading[name]
            if mode in _HELD and phase.volumes.layout != "records":
                entries[self._entry(name)] = phase.planned_bytes(mode)
        return entries

    @cached_property
    def reading(self) -> Mapping[str, tuple[Mode, str]]:
        """By phase, how blocks are held in memory, and why.

        No sample or order depends on it.

        Raises:
            PlanError: Streaming was asked for and cannot be.
        """
        return self.reading_within(self.room) if self.agreed is None else self.agreed

    @property
    def room(self) -> int:
        """Return the bytes that the ranks of this node may use for blocks."""
        others = sum(self._shared_entries.values()) * self.rank.local_size
        return self.pipeline.memory.allowed_bytes() - others

    def reading_within(self, room: int) -> dict[str, tuple[Mode, str]]:
        """Return what `reading` is where a node has `room` bytes for blocks.

        Phases choose in their order, each from what those before it leave.

        Raises:
            PlanError: A mode was asked for that cannot be.
        """
        windows = 0
        found: dict[str, tuple[Mode, str]] = {}
        for name, plan in self.phases.items():
            lanes = range(len(plan.lanes) * self.rank.local_size)
            mode, why = plan.phase.reader.choose(plan.volumes, plan.order, lanes, max(0, room))
            found[name] = mode, why
            # A node has one copy of resident blocks, and each rank all else.
            held = plan.planned_bytes(mode) * (1 if mode == SHARED else self.rank.local_size)
            if mode == "streaming":  # one allocation serves all that stream
                held, windows = max(0, held - windows), max(held, windows)
            room -= held
        return found

    @property
    def windows_bytes(self) -> int:
        """Return the bytes of the windows that all streaming phases share.

        0 without such.
        """
        streaming = [
            plan for name, plan in self.phases.items() if self.reading[name][0] == "streaming"
        ]
        return max((plan.planned_bytes("streaming") for plan in streaming), default=0)

    @property
    def _shared_entries(self) -> dict[str, int]:
        phases = self.phases.values()
        scratch = sum(plan.scratch_bytes(self.workers) for plan in phases)
        of_records: Counter[str] = Counter()
        for plan in phases:
            of_records.update(plan.record_entries(self.workers))
        images = sum(plan.images_in_hand(self.workers) for plan in phases)
        return {
            **self._arena_entries,
            **({"scratch of views and mixing": scratch} if scratch else {}),
            **{name: size for name, size in of_records.items() if size},
            **({"images that workers read": images} if images else {}),
            "rows beside the zones": 2 * max(plan.rows for plan in phases) * BESIDE_ROW_BYTES,
            "order of an epoch": max(plan.order.planned_bytes for plan in phases),
        }

    def _entry(self, phase: str) -> str:
        is_mix = isinstance(self.phases[phase].volumes, MixedSet)
        held = "sources of the mix" if is_mix else _HELD[self.reading[phase][0]]
        return self._of_phase(held, phase)

    def _of_phase(self, what: str, phase: str) -> str:
        return what if len(self.phases) == 1 else f"{what} of {phase}"

    @property
    def total_bytes(self) -> int:
        """Return all bytes of `memory_entries`."""
        return sum(self.memory_entries.values())

    @property
    def _arena_entries(self) -> dict[str, int]:
        """Return what the arena holds on the host.

        All of the plan, or zones to copy from.
        """
        on_host = self.pipeline.arena.host_bytes(self.memory, forms_of(self.phases))
        if on_host != self.memory.total_bytes:
            return {"pinned zones": on_host}
        zones = 2 * self.memory.zone_bytes
        declared = on_host - zones
        return {"zones": zones, **({"declared tensors": declared} if declared else {})}

    def fingerprint(self) -> dict[str, str]:
        """Return what a run that goes on must have as it was, each as a short digest.

        Workers, ranks, the reader's mode, memory and machine have no part in it.
        """
        return {
            name: hashlib.sha256(json.dumps(item).encode()).hexdigest()[:DIGITS]
            for name, item in self._facts.items()
        }

    def facts(self) -> dict[str, str]:
        """Return what the ranks of a run must have alike, in words or as a digest."""
        pipeline = self.pipeline
        facts = {
            "library": __version__,
            **self._facts,
            "epochs": pipeline.epochs,
            "max_steps": pipeline.max_steps,
            "plan": self.digest()[:DIGITS],
        }
        texts = {
            name: fact if isinstance(fact, str) else json.dumps(fact)
            for name, fact in facts.items()
        }
        return {
            name: text if len(text) <= SHOWN else hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
            for name, text in texts.items()
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
