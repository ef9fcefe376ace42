"""The contract of a consumer, and one that takes batches and touches none.

The latter is what a speed measurement wants.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from dtsflow.arena.batch import Batch
from dtsflow.config.configurable import configurable
from dtsflow.po.normalize import Normalize
from dtsflow.ranks.group import Rank
from dtsflow.spec import Field, ImageSpec

_PIXELS = ImageSpec(None, None, 3)


@dataclass(frozen=True, slots=True)
class PhaseSetting:
    """The facts that a consumer may know of a phase.

    Attributes:
        number: The phase's number, as random addresses use it.
        class_names: Name of each label.
        normalize: The operation that made the pixels, None when they are uint8.
        pixels: What one row's pixels are; a side that changes by epoch is None. None
            where the set is one of records.
        steps: Global batches of an epoch.
        fields: Of a set of records, the fields of its batches; else those that a list
            gives beside images and labels.
    """

    number: int
    class_names: tuple[str, ...] = ()
    normalize: Normalize | None = None
    pixels: ImageSpec | None = _PIXELS
    steps: int = 0
    fields: tuple[Field, ...] = ()


@dataclass(frozen=True, slots=True)
class Start:
    """The place where a run goes on.

    Attributes:
        phase: The phase.
        epoch: The epoch.
        step: The first batch that is left.
        folder: Where the state lay that says so; None: nowhere.
    """

    phase: str
    epoch: int
    step: int
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """The facts that a consumer may know of the run it is part of.

    Attributes:
        folder: The run folder, None when the run writes none.
        phases: By name, in the order an epoch has them.
        epochs: Passes through all of them.
        seed: The run's seed.
        start: Where it goes on; None: it begins.
        rank: Which rank consumes; all have the same folder.
    """

    folder: Path | None
    phases: Mapping[str, PhaseSetting]
    epochs: int = 1
    seed: int = 0
    start: Start | None = None
    rank: Rank = field(default_factory=lambda: Rank(index=0, size=1))


class Sink(Protocol):
    """A consumer at work."""

    def take(self, batch: Batch) -> None:
        """Use one batch; it is readable until this returns."""

    def finish(self, phase: str, epoch: int) -> str:
        """Return a pass is over.

        Returns the text that a person should read of it; may be empty.
        """

    def results(self) -> dict[str, Any]:
        """Return what the report should hold, as plain JSON values."""


@runtime_checkable
class Resumable(Protocol):
    """A sink with a state of its own, which goes with the run's."""

    def save(self, start: Start) -> None:
        """Keep the state as it is now, durably, for a run that goes on at `start`."""

    def saved(self, start: Start) -> None:
        """Note that the state names `start`; data kept for other places may go."""


@runtime_checkable
class Consumer(Protocol):
    """A configured consumer."""

    def open(self, setting: Setting) -> Sink:
        """Start consuming in a run."""


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
        """Return an empty text: nothing is summed up before the run ends."""
        return ""

    def results(self) -> dict[str, Any]:
        """Return an empty mapping: the report says everything anyway."""
        return {}
