import pytest

from dtsflow.errors import RanksError
from dtsflow.ranks.device_of import device_of
from dtsflow.ranks.rank import Rank


def test_each_rank_of_a_node_has_a_device_of_its_own() -> None:
    ranks = [Rank(4 + i, 8, node=1, local_index=i, local_size=4) for i in range(4)]
    assert [device_of(rank, 8) for rank in ranks] == [0, 1, 2, 3]


def test_a_device_that_the_launcher_chose_is_number_0() -> None:
    assert device_of(Rank(3, 4, local_index=3, local_size=4), 1) == 0


def test_more_ranks_than_devices_are_refused_with_both_numbers() -> None:
    with pytest.raises(RanksError, match=r"process 2 of 4 .* sees 2 devices.* at most 2 a node"):
        device_of(Rank(2, 4, local_index=2, local_size=4), 2)


def test_no_device_is_refused_even_for_one_rank() -> None:
    with pytest.raises(RanksError, match="sees 0 devices"):
        device_of(Rank(0, 1), 0)
