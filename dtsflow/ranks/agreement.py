"""Whether all ranks are about to do the same run, and all of them can."""

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import count, groupby
from typing import TypeVar

from dtsflow.errors import CommonError, DtsflowError
from dtsflow.ranks.group import Group

T = TypeVar("T")


def together(group: Group, work: Callable[[], T], *, timeout_s: float | None = None) -> T:
    """Return what `work` does once it is done on all ranks; all ranks call it.

    A rank waits `timeout_s` for the others, by default as long as the group does.

    Raises:
        CommonError: It failed on some; on every rank, naming them and their reasons. A
            rank that is alone raises its own error.
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
    """Return once all ranks have told the same `facts`; all ranks call it.

    Raises:
        CommonError: They have not; on every rank, naming each fact that differs,
            its values, and the ranks that have them.
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
    """Who has which value, if not all have the same."""
    having: dict[str | None, list[int]] = {}
    for rank, value in enumerate(values):
        having.setdefault(value, []).append(rank)
    if len(having) == 1:
        return ""
    return ", ".join(
        f"{'nothing' if value is None else value} on {ranks_text(ranks)}"
        for value, ranks in having.items()
    )
