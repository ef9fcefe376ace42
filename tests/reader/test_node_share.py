import numpy as np
from hypothesis import given
from hypothesis.strategies import DrawFn, composite, integers, lists, permutations

from dtsflow.reader.order import Ints
from dtsflow.reader.resident import node_share


def ints(*numbers: int) -> Ints:
    return np.array(numbers, np.int64)


@composite
def nodes(draw: DrawFn) -> tuple[list[bool], list[Ints]]:
    """Which blocks are needed, and what each of some processes delivers of them."""
    needed = draw(lists(integers(0, 3).map(bool), min_size=1, max_size=20))
    blocks = [block for block, flag in enumerate(needed) if flag]
    deliveries = []
    for _ in range(draw(integers(1, 5))):
        shuffled = draw(permutations(blocks))
        deliveries.append(ints(*shuffled[: draw(integers(0, len(blocks)))]))
    return needed, deliveries


@given(nodes())
def test_each_needed_block_is_read_by_exactly_one(node: tuple[list[bool], list[Ints]]) -> None:
    needed, deliveries = np.array(node[0]), node[1]
    shares = [node_share(needed, deliveries, i) for i in range(len(deliveries))]
    assert sorted(block for share in shares for block in share) == list(np.flatnonzero(needed))


@given(nodes())
def test_what_a_process_delivers_itself_it_reads_in_that_order_and_first(
    node: tuple[list[bool], list[Ints]],
) -> None:
    needed, deliveries = np.array(node[0]), node[1]
    delivered = {int(block) for delivery in deliveries for block in delivery}
    for process, delivery in enumerate(deliveries):
        share = node_share(needed, deliveries, process)
        own = [block for block in share if block in delivered]
        assert share[: len(own)] == own
        turns = {int(block): turn for turn, block in enumerate(delivery)}
        assert [turns[block] for block in own] == sorted(turns[block] for block in own)


def test_a_boundary_block_goes_to_the_one_that_needs_it_first() -> None:
    needed = np.ones(5, np.bool_)
    deliveries = [ints(0, 1, 2), ints(2, 3, 4)]
    assert node_share(needed, deliveries, 0) == [0, 1]
    assert node_share(needed, deliveries, 1) == [2, 3, 4]


def test_blocks_that_all_need_alike_are_divided() -> None:
    needed = np.ones(8, np.bool_)
    every = ints(*range(8))
    shares = [node_share(needed, [every] * 3, i) for i in range(3)]
    assert sorted(map(len, shares)) == [2, 3, 3]
    assert shares[0][0] == 0


def test_what_other_nodes_deliver_is_divided_and_comes_last() -> None:
    needed = np.ones(7, np.bool_)
    deliveries = [ints(6), ints(3)]
    assert node_share(needed, deliveries, 0) == [6, 0, 2, 5]
    assert node_share(needed, deliveries, 1) == [3, 1, 4]


def test_alone_a_process_reads_all_first_what_it_delivers() -> None:
    needed = np.array([True, False, True, True])
    assert node_share(needed, [ints(2)], 0) == [2, 0, 3]
