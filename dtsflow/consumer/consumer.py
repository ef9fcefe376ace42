"""What a consumer must offer."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from dtsflow.arena.batch import Batch
from dtsflow.po.normalize import Normalize


@dataclass(frozen=True, slots=True)
class PhaseSetting:
    """What a consumer may know of a phase.

    Attributes:
        number: The phase's number, as random addresses use it.
        class_names: Name of each label.
        normalize: The operation that made the pixels, None when they are uint8.
    """

    number: int
    class_names: tuple[str, ...] = ()
    normalize: Normalize | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """What a consumer may know of the run it is part of.

    Attributes:
        folder: The run folder, None when the run writes none.
        phases: By name, in the order an epoch has them.
        rank: Which rank consumes; all have the same folder.
    """

    folder: Path | None
    phases: Mapping[str, PhaseSetting]
    rank: int = 0


class Sink(Protocol):
    """A consumer at work."""

    def take(self, batch: Batch) -> None:
        """Use one batch; it is readable until this returns."""

    def results(self) -> dict[str, Any]:
        """What the report should hold, as plain JSON values."""


@runtime_checkable
class Consumer(Protocol):
    """A configured consumer."""

    def open(self, setting: Setting) -> Sink:
        """Start consuming in a run."""
