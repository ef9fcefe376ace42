from hypothesis import given
from hypothesis.strategies import integers, lists, sets

from dtsflow.ranks.launcher import Whereabouts, place


def at(node: str, cpus: tuple[int, ...] = (0,), local: int | None = None) -> Whereabouts:
    return Whereabouts(node, local, cpus, cpu_limit=len(cpus))


def test_nodes_are_numbered_as_they_first_appear_and_ranks_on_them_in_order() -> None:
    everywhere = [at("b"), at("a"), at("b"), at("a"), at("b")]
    placed = [place(index, everywhere) for index in range(5)]
    ranks = [rank for rank, _ in placed]
    assert [rank.node for rank in ranks] == [0, 1, 0, 1, 0]
    assert [rank.local_index for rank in ranks] == [0, 0, 1, 1, 2]
    assert [rank.local_size for rank in ranks] == [3, 2, 3, 2, 3]
    assert [peers for _, peers in placed[:2]] == [(0, 2, 4), (1, 3)]


def test_the_launchers_own_numbers_count_where_all_have_one() -> None:
    everywhere = [at("a", local=1), at("a", local=0)]
    rank, peers = place(0, everywhere)
    assert (rank.local_index, peers) == (1, (1, 0))
    rank, peers = place(0, [at("a", local=1), at("a")])
    assert (rank.local_index, peers) == (0, (0, 1))


def shares(*cpus: tuple[int, ...]) -> list[int | None]:
    everywhere = [at("a", own) for own in cpus]
    return [place(index, everywhere)[0].cpu_share for index in range(len(cpus))]


def test_cpus_that_all_ranks_may_use_are_divided() -> None:
    assert shares(*[tuple(range(8))] * 4) == [2, 2, 2, 2]


def test_cpus_that_the_launcher_gave_one_rank_are_all_its_own() -> None:
    assert shares((0, 1, 2), (3, 4, 5)) == [3, 3]


def test_ranks_on_another_node_take_no_part_of_the_cpus() -> None:
    everywhere = [at("a", (0, 1, 2, 3)), at("b", (0, 1, 2, 3))]
    assert place(0, everywhere)[0].cpu_share == 4


def test_a_quota_is_divided_as_the_cpus_are() -> None:
    everywhere = [Whereabouts("a", None, tuple(range(16)), cpu_limit=4)] * 2
    assert place(1, everywhere)[0].cpu_share == 2


@given(lists(sets(integers(0, 7), min_size=1), min_size=1, max_size=6))
def test_shares_are_at_least_1_and_no_more_than_there_is(cpus: list[set[int]]) -> None:
    found = [share or 0 for share in shares(*(tuple(own) for own in cpus))]
    assert all(1 <= share <= len(own) for share, own in zip(found, cpus, strict=True))
    assert sum(share for share in found if share > 1) <= len(set.union(*cpus))


def test_whereabouts_are_told_as_text() -> None:
    here = Whereabouts.here(node="3", local_rank=1)
    assert Whereabouts.from_text(here.to_text()) == here
    assert here.node != Whereabouts.here(node="4", local_rank=1).node
