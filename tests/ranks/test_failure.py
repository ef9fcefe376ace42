import re
from typing import NoReturn

import pytest

from dtsflow.errors import CommonError, PlanError
from dtsflow.ranks.failure import ending_all
from dtsflow.ranks.group import Rank


class AbortedError(Exception):
    pass


class Pair:
    """A group of two that says how it ended."""

    def __init__(self, size: int = 2) -> None:
        self.rank, self.peers = Rank(0, size), range(size)
        self.is_alone = size == 1
        self.closed = False

    def gather_texts(self, text: str, *, timeout_s: float | None = None) -> list[str]:
        raise AssertionError(text, timeout_s)

    def abort(self, reason: str, status: int = 1) -> NoReturn:
        raise AbortedError(reason, status)

    def close(self) -> None:
        self.closed = True


def fail_with(error: BaseException, group: Pair) -> None:
    with ending_all(group):
        raise error


def test_without_a_failure_the_group_goes_on() -> None:
    group = Pair()
    with ending_all(group):
        pass
    assert not group.closed


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PlanError("It does not fit."), "^It does not fit.$"),
        (KeyboardInterrupt(), "^interrupted$"),
        (ZeroDivisionError("here"), "(?s)^Traceback.*fail_with.*ZeroDivisionError: here$"),
        (SystemExit(3), "SystemExit: 3"),
    ],
)
def test_a_failure_ends_all_with_its_reason(error: BaseException, said: str) -> None:
    with pytest.raises(AbortedError) as caught:
        fail_with(error, Pair())
    reason, status = caught.value.args
    assert status == 1
    assert re.search(said, reason)


COMMON = CommonError("both", is_told_here=True)


@pytest.mark.parametrize("error", [COMMON, SystemExit(0), SystemExit(), GeneratorExit()])
def test_what_is_no_failure_of_one_rank_only_leaves(error: BaseException) -> None:
    group = Pair()
    with pytest.raises(type(error)):
        fail_with(error, group)
    assert group.closed


def test_alone_an_error_is_what_it_was() -> None:
    group = Pair(size=1)
    with pytest.raises(PlanError, match="It does not fit"):
        fail_with(PlanError("It does not fit."), group)
    assert group.closed
