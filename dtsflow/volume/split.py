"""What the ranks of a run are given of each global batch of records."""

from enum import Enum
from typing import Protocol, runtime_checkable

from dtsflow.errors import PlanError


class Split(Enum):
    """How the rows of a global batch are placed on ranks, in OneFlow's words.

    No order depends on it: a rank is given rows of the same global batches.
    """

    ROWS = "split(0)"
    """Each rank has its share of the rows."""

    BROADCAST = "broadcast"
    """Each rank has all rows, the same on every rank."""


@runtime_checkable
class Placed(Protocol):
    """Records that say what ranks are given; others are `split(0)`."""

    @property
    def split(self) -> Split | str:
        """One of `Split`, or its value."""


def split_of(records: object, loader: str) -> Split:
    """What the records of `loader` say of themselves.

    Raises:
        PlanError: It is none of `Split`.
    """
    if not isinstance(records, Placed):
        return Split.ROWS
    try:
        return Split(records.split)
    except ValueError as error:
        known = " or ".join(repr(one.value) for one in Split)
        raise PlanError(
            f"{loader}: its records say split={records.split!r}, and it must be {known}."
        ) from error
