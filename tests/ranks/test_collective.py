import json
from collections.abc import Mapping, Sequence
from typing import NoReturn

import pytest

from dtsflow.errors import CommonError, PlanError, RanksError
from dtsflow.ranks.collective import agree, ranks_text, together
from dtsflow.ranks.group import Rank, SingleProcess


class Told:
    """A group whose ranks have told these texts, or facts."""

    def __init__(self, facts: Sequence[Mapping[str, str] | str], index: int = 0) -> None:
        self.rank = Rank(index, len(facts))
        self.peers = tuple(range(len(facts)))
        self._texts = [one if isinstance(one, str) else json.dumps(one) for one in facts]

    is_alone = False

    def gather_texts(self, text: str, *, timeout_s: float | None = None) -> list[str]:
        assert text == self._texts[self.rank.index]
        assert timeout_s is None
        return self._texts

    def abort(self, reason: str, status: int = 1) -> NoReturn:
        raise AssertionError(reason, status)

    def close(self) -> None: ...


SAME = {"library": "1.0", "data": "ab"}


def test_ranks_that_tell_the_same_agree() -> None:
    agree(Told([SAME] * 4, 2), SAME)


@pytest.mark.parametrize("index", [0, 4])
def test_what_differs_is_named_with_its_values_and_ranks_on_every_rank(index: int) -> None:
    facts = [SAME, SAME, {**SAME, "data": "cd"}, SAME, {**SAME, "library": "1.1"}]
    with pytest.raises(CommonError) as caught:
        agree(Told(facts, index), facts[index])
    assert "data: ab on ranks 0-1 and 3-4, cd on rank 2" in str(caught.value)
    assert "library: 1.0 on ranks 0-3, 1.1 on rank 4" in str(caught.value)
    assert caught.value.is_told_here is (index == 0)


def test_a_fact_that_a_rank_does_not_have_differs() -> None:
    with pytest.raises(RanksError, match="subset: 5e on rank 0, nothing on rank 1") as caught:
        agree(Told([{**SAME, "subset": "5e"}, SAME]), {**SAME, "subset": "5e"})
    assert "library" not in str(caught.value)


def fail() -> int:
    raise PlanError("It does not fit.")


def test_what_all_ranks_have_done_is_done() -> None:
    assert together(Told(["", "", ""], 1), lambda: 7) == 7


def test_what_one_rank_cannot_do_is_raised_on_all_naming_it() -> None:
    texts = ["", "It does not fit.", ""]
    for index in (0, 2):
        with pytest.raises(CommonError, match=r"^rank 1: It does not fit\.$") as caught:
            together(Told(texts, index), lambda: 7)
        assert caught.value.is_told_here is (index == 0)
    with pytest.raises(CommonError, match=r"^rank 1: It does not fit\.$") as caught:
        together(Told(texts, 1), fail)
    assert isinstance(caught.value.__cause__, PlanError)


def test_what_no_rank_can_do_is_told_once() -> None:
    with pytest.raises(CommonError, match=r"^It does not fit\.$"):
        together(Told(["It does not fit."] * 3), fail)


def test_alone_an_error_is_what_it_was() -> None:
    with pytest.raises(PlanError, match="It does not fit"):
        together(SingleProcess(), fail)


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([3], "rank 3"),
        ([0, 1], "ranks 0-1"),
        ([0, 2], "ranks 0 and 2"),
        ([0, 1, 2, 5, 7, 8], "ranks 0-2, 5 and 7-8"),
    ],
)
def test_ranks_are_named_in_runs(ranks: list[int], text: str) -> None:
    assert ranks_text(ranks) == text
