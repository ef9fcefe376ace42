"""What a preprocess operation on records is: named fields in, named fields out.

An operation on images draws and works on one image at a time; this one has a whole
chunk of samples, whatever their fields are.
"""

from typing import Protocol, runtime_checkable

from dtsflow.decode.parser import Arrays
from dtsflow.seed.draws import Draws
from dtsflow.spec import Field

__all__ = ["Arrays", "Draws", "Field", "RecordOperation"]


@runtime_checkable
class RecordOperation(Protocol):
    """One step on records. Stateless: any worker may run it on any chunk."""

    @property
    def words(self) -> int:
        """How many draws one sample needs."""

    def out_fields(self, fields: tuple[Field, ...]) -> tuple[Field, ...]:
        """Say what comes out where `fields` go in.

        Raises:
            PlanError: The operation cannot work on them.
        """

    def apply(self, records: Arrays, out: Arrays, draws: Draws) -> None:
        """Fill all of `out` from `records`; keep no view of either.

        They have the same number of rows, and share no bytes. A row depends on its own
        sample's row and draws alone, never on its neighbours.
        """
