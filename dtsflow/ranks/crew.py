"""Ranks that share out the items of a job, and wait for each other until it is done."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from dtsflow.ranks.agreement import agree, together
from dtsflow.ranks.alone import Alone
from dtsflow.ranks.group import Group

T = TypeVar("T")

_PATIENCE_S = 30 * 86400.0  # a job may take days; a rank that dies ends the others anyway


class Crew:
    """The ranks of one job, which each do their own items of every list.

    All ranks call the same methods in the same order, but for the properties and `own`.

    Args:
        group: The ranks; None: this process alone.
    """

    def __init__(self, group: Group | None = None) -> None:
        self._group = Alone() if group is None else group

    @property
    def is_alone(self) -> bool:
        """Whether this process hears of no other."""
        return self._group.is_alone

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which does what only one may do."""
        return self._group.rank.index == 0

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self._group.rank.size

    @property
    def cpu_share(self) -> int | None:
        """CPUs that are this rank's part of its node's; None: not known."""
        return self._group.rank.cpu_share

    def own(self, items: Sequence[T]) -> Sequence[T]:
        """This rank's items: they go to the ranks in turn."""
        rank = self._group.rank
        return items[rank.index :: rank.size]

    def exchange(self, found: Sequence[T]) -> list[T]:
        """What all ranks found, one value for each of their own items, in item order.

        The values are such as JSON knows.
        """
        if self.is_alone:
            return list(found)
        texts = self._group.gather_texts(json.dumps(list(found)), timeout_s=_PATIENCE_S)
        parts = [json.loads(text) for text in texts]
        items = range(sum(map(len, parts)))
        return [parts[item % self.size][item // self.size] for item in items]

    def together(self, work: Callable[[], T]) -> T:
        """Return what `work` does once it is done on all ranks.

        Raises:
            CommonError: It failed on some; a rank that is alone raises its own error.
        """
        return together(self._group, work, timeout_s=_PATIENCE_S)

    def first(self, work: Callable[[], T]) -> T | None:
        """What `work` does on rank 0; None on the others, which wait for it.

        Raises:
            CommonError: It failed, on every rank; a rank that is alone raises its own
                error.
        """
        return together(self._group, work if self.is_first else _nothing, timeout_s=_PATIENCE_S)

    def tell(self, text: str) -> str:
        """What rank 0 passes as `text`, on every rank."""
        said = text if self.is_first else ""
        return self._group.gather_texts(said, timeout_s=_PATIENCE_S)[0]

    def agree(self, facts: Callable[[], Mapping[str, str]]) -> None:
        """Return once all ranks have told the same `facts`; one alone is not asked.

        Raises:
            CommonError: They have not; names each that differs.
        """
        if not self.is_alone:
            agree(self._group, facts())


def _nothing() -> None:
    """What the others do while rank 0 works."""
