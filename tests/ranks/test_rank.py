from dataclasses import FrozenInstanceError

import pytest

from dtsflow.ranks.group import Rank


def test_a_rank_is_alone_on_its_node_unless_told_otherwise() -> None:
    assert Rank(1, 2) == Rank(index=1, size=2, node=0, local_index=0, local_size=1)


def test_a_rank_does_not_change() -> None:
    rank = Rank(0, 1)
    with pytest.raises(FrozenInstanceError):
        rank.index = 1  # type: ignore[misc]  # the point of the test
