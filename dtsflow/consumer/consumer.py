"""What a consumer must offer."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from dtsflow.arena.batch import Batch
from dtsflow.po.normalize import Normalize


@dataclass(frozen=True, slots=True)
class Setting:
    """What a consumer may know of the run it is part of.

    Attributes:
        folder: The run folder, None when the run writes none.
        class_names: Name of each label.
        normalize: The operation that made the pixels, None when they are uint8.
        phases: Number of each phase, as random addresses use it.
    """

    folder: Path | None
    class_names: tuple[str, ...]
    normalize: Normalize | None
    phases: dict[str, int]


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
