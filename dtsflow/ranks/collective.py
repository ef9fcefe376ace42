"""Work that all ranks of a run do together.

`agree` checks that all ranks are about to do the same run, and `together` that all of
them can. `Collective` shares out the items of a job over the ranks, which wait for each
other until it is done.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count, groupby
from typing import TypeVar

from dtsflow.errors import CommonError, DtsflowError
from dtsflow.ranks.group import Group, SingleProcess

T = TypeVar("T")


def together(group: Group, work: Callable[[], T], *, timeout_s: float | None = None) -> T:
    """Return what `work` does once it is done on all ranks; all ranks call it.

    A rank waits `timeout_s` for the others, by default as long as the group does.

    Raises:
        CommonError: It failed on some ranks. Every rank raises this, with their numbers
            and reasons. A rank that is alone raises its own error.
    """
    if group.is_alone:
        return work()
    done: list[T] = []
    failure: Exception | None = None
    try:
        done.append(work())
    except (DtsflowError, OSError, MemoryError) as error:
        failure = error
    reason = "" if failure is None else str(failure) or repr(failure)
    reasons = group.gather_texts(reason, timeout_s=timeout_s)
    if not any(reasons):
        return done[0]
    alike = len(set(reasons)) == 1
    lines = [f"rank {rank}: {reason}" for rank, reason in enumerate(reasons) if reason]
    told = reasons[0] if alike else "\n".join(lines)
    raise CommonError(told, is_told_here=group.rank.index == 0) from failure


def agree(group: Group, facts: Mapping[str, str]) -> None:
    """Return once all ranks have sent the same `facts`; all ranks call it.

    Raises:
        CommonError: The facts differ. Every rank raises this, with each fact that
            differs, its values, and the ranks that have them.
    """
    told = [json.loads(text) for text in group.gather_texts(json.dumps(dict(facts)))]
    names = dict.fromkeys(name for facts in told for name in facts)
    lines = [
        f"  {name}: {differing}"
        for name in names
        if (differing := _differing([facts.get(name) for facts in told]))
    ]
    if lines:
        raise CommonError(
            f"The {group.rank.size} ranks are not about to do the same run. Start all of them "
            "with the same command, data and installation.\n" + "\n".join(lines),
            is_told_here=group.rank.index == 0,
        )


def ranks_text(ranks: Iterable[int]) -> str:
    """Name ranks in a sentence, ascending: `rank 3`, or `ranks 0-2 and 7`."""
    ranks = list(ranks)
    counter = count()
    runs = [list(run) for _, run in groupby(ranks, key=lambda rank: rank - next(counter))]
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    text = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    return f"rank {text}" if len(ranks) == 1 else f"ranks {text}"


def _differing(values: list[str | None]) -> str:
    """Name the ranks that have each value; empty if all have the same."""
    having: dict[str | None, list[int]] = {}
    for rank, value in enumerate(values):
        having.setdefault(value, []).append(rank)
    if len(having) == 1:
        return ""
    return ", ".join(
        f"{'nothing' if value is None else value} on {ranks_text(ranks)}"
        for value, ranks in having.items()
    )


_PATIENCE_S = 30 * 86400.0  # a job may take days; a rank that dies ends the others anyway


class Collective:
    """The ranks of one job, which each do their own items of every list.

    All ranks call the same methods in the same order, except the properties and `own`.

    Args:
        group: The ranks; None: this process alone.
    """

    def __init__(self, group: Group | None = None) -> None:
        self._group = SingleProcess() if group is None else group

    @property
    def is_alone(self) -> bool:
        """Tell whether this process exchanges texts with no other."""
        return self._group.is_alone

    @property
    def is_first(self) -> bool:
        """Tell whether this is rank 0, which does what only one may do."""
        return self._group.rank.index == 0

    @property
    def size(self) -> int:
        """Return how many ranks there are."""
        return self._group.rank.size

    @property
    def cpu_share(self) -> int | None:
        """Return the CPUs that are this rank's part of its node's; None: not known."""
        return self._group.rank.cpu_share

    def own(self, items: Sequence[T]) -> Sequence[T]:
        """Return this rank's items: they go to the ranks in turn."""
        rank = self._group.rank
        return items[rank.index :: rank.size]

    def exchange(self, found: Sequence[T]) -> list[T]:
        """Return what all ranks found, one value for each own item, in item order.

        The values must be plain JSON values.
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
        """Return what `work` does on rank 0; None on the others, which wait for it.

        Raises:
            CommonError: It failed, on every rank; a rank that is alone raises its own
                error.
        """
        return together(self._group, work if self.is_first else _nothing, timeout_s=_PATIENCE_S)

    def tell(self, text: str) -> str:
        """Return on every rank what rank 0 passes as `text`."""
        said = text if self.is_first else ""
        return self._group.gather_texts(said, timeout_s=_PATIENCE_S)[0]

    def agree(self, facts: Callable[[], Mapping[str, str]]) -> None:
        """Return once all ranks have sent the same `facts`; one alone does nothing.

        Raises:
            CommonError: The facts differ; names each that does.
        """
        if not self.is_alone:
            agree(self._group, facts())


def _nothing() -> None:
    """Do nothing, as the other ranks while rank 0 works."""
