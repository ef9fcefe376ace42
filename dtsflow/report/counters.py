"""The counters of a run."""

import time
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(slots=True)
class PhaseCounters:
    """The counts of what one phase was handed.

    Attributes:
        images: Valid rows so far.
        steps: Batches so far.
        waited_s: Seconds the consumer waited for them.
        bad_samples: Rows so far that were masked, or have a substitute.
    """

    images: int = 0
    steps: int = 0
    waited_s: float = 0.0
    bad_samples: int = 0


@dataclass(slots=True)
class Counters:
    """Batches handed to the consumer, and when; times are `time.perf_counter` seconds.

    Attributes:
        opened: When the plan was opened.
        rss_before: Bytes resident just before that.
        first_asked: When the first batch was asked for.
        first_batch: When it was there.
        last_batch: When the latest one was there.
        waited_s: Seconds the consumer waited for batches.
        images: Valid rows so far.
        steps: Batches so far.
        phases: The same by phase.
    """

    opened: float
    rss_before: int
    first_asked: float = 0.0
    first_batch: float = 0.0
    last_batch: float = 0.0
    waited_s: float = 0.0
    images: int = 0
    steps: int = 0
    phases: dict[str, PhaseCounters] = field(default_factory=dict)

    def delivered(self, valid: npt.NDArray[np.bool_], asked: float, phase: str) -> None:
        """Count one batch of `phase` that was asked for at `asked` and is here now."""
        now = time.perf_counter()
        images = int(np.count_nonzero(valid))
        of_phase = self.phases.setdefault(phase, PhaseCounters())
        of_phase.waited_s += now - asked
        of_phase.images += images
        of_phase.steps += 1
        if self.steps == 0:
            self.first_asked, self.first_batch = asked, now
        self.last_batch = now
        self.waited_s += now - asked
        self.images += images
        self.steps += 1

    def bad(self, count: int, phase: str) -> None:
        """Say how many rows of `phase` were masked or have a substitute so far."""
        self.phases.setdefault(phase, PhaseCounters()).bad_samples = count

    @property
    def bad_samples(self) -> int:
        """Rows of all phases so far that were masked, or have a substitute."""
        return sum(of_phase.bad_samples for of_phase in self.phases.values())

    @property
    def images_per_s(self) -> float:
        """Images a second, from the first request to the last batch."""
        elapsed = self.last_batch - self.first_asked
        return self.images / elapsed if elapsed > 0 else 0.0
