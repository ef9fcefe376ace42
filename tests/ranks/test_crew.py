import json
from collections.abc import Sequence
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis.strategies import integers

from dtsflow.errors import CommonError, PackError
from dtsflow.ranks.collective import Collective
from dtsflow.ranks.group import Rank


class Saying:
    """A group whose ranks say these texts, and take their time for it."""

    is_alone = False

    def __init__(self, texts: Sequence[str], index: int = 0) -> None:
        self.rank = Rank(index, len(texts), cpu_share=3)
        self.peers = tuple(range(len(texts)))
        self._texts = list(texts)

    def gather_texts(self, text: str, *, timeout_s: float | None = None) -> list[str]:
        assert timeout_s is not None
        assert timeout_s > 86400
        assert text == self._texts[self.rank.index]
        return self._texts

    def abort(self, reason: str, status: int = 1) -> NoReturn:
        raise AssertionError(reason, status)

    def close(self) -> None: ...


@given(items=integers(0, 40), size=integers(1, 9))
def test_what_each_rank_finds_for_its_own_items_comes_back_in_their_order(
    items: int, size: int
) -> None:
    every = list(range(items))
    shares = [list(Collective(Saying([""] * size, index)).own(every)) for index in range(size)]
    assert sorted(item for share in shares for item in share) == every
    texts = [json.dumps([[item, str(item)] for item in share]) for share in shares]
    for index in range(size):
        found = Collective(Saying(texts, index)).exchange(
            [[one, str(one)] for one in shares[index]]
        )
        assert found == [[item, str(item)] for item in every]


def test_one_process_is_the_first_and_does_all() -> None:
    collective = Collective()
    assert (collective.is_alone, collective.is_first, collective.size, collective.cpu_share) == (
        True,
        True,
        1,
        None,
    )
    assert collective.own("abc") == "abc"
    assert collective.exchange([(1, 2)]) == [(1, 2)]
    assert collective.first(lambda: 5) == 5
    assert collective.tell("it") == "it"
    with pytest.raises(PackError, match="no room"):
        collective.together(no_room)


def test_the_first_rank_works_and_tells_while_the_others_wait() -> None:
    first, other = Collective(Saying(["", ""], 0)), Collective(Saying(["", ""], 1))
    assert (first.first(lambda: 5), other.first(no_room)) == (5, None)
    assert Collective(Saying(["it", ""], 1)).tell("not this") == "it"
    assert other.cpu_share == 3


def test_what_fails_on_one_rank_fails_on_all() -> None:
    for index in (0, 1):
        with pytest.raises(CommonError, match="rank 0: no room"):
            Collective(Saying(["no room", ""], index)).first(no_room)


def no_room() -> int:
    raise PackError("no room")
