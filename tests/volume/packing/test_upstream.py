"""The arrangement of level 0 against UPSTREAM.md 2.4, written out again."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.errors import PackError
from dtsflow.volume.format.header import aligned
from dtsflow.volume.packing.upstream import arrange_level0, minimum_blocks, name_order, shuffled
from dtsflow.volume.source.base import SourceImage, Stored

MARGIN = 16 * 1024 * 1024 - 4096
NOWHERE = Stored("", 0, 0, 0, 0)


class Upstream:
    """The four steps as the document words them, with its lists of [index, size].

    It stops where the list is empty, as upstream does not.
    """

    def __init__(self, sizes: list[int], minimum: int) -> None:
        self.items = [[index, -(-size // 64) * 64] for index, size in enumerate(sizes)]
        self.blocks: list[list[list[int]]] = [[] for _ in range(minimum)]
        self.margins = [MARGIN] * minimum
        self.minimum = minimum

    def put(self, block: int) -> None:
        index, size = self.items.pop(-1)
        self.blocks[block].append([index, size])
        self.margins[block] -= size

    def fits(self, block: int) -> bool:
        return bool(self.items) and self.margins[block] >= self.items[-1][1]

    def steps_1_and_2(self) -> None:
        self.items = sorted(self.items, key=lambda x: x[1])
        for block in range(self.minimum):
            if self.items:
                self.put(block)
        random.seed(42)
        random.shuffle(self.items)
        for block in range(self.minimum):
            while self.fits(block):
                self.put(block)

    def step_3(self) -> None:
        pairs = sorted(zip(self.margins, self.blocks, strict=True), key=lambda x: (x[0], x[1]))
        self.margins, self.blocks = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        self.items = sorted(self.items, key=lambda x: x[1], reverse=True)
        for block in range(self.minimum):
            if self.fits(block):
                self.put(block)

    def step_4(self) -> None:
        random.seed(42)
        random.shuffle(self.items)
        block = self.minimum - 1
        while self.items:
            if self.fits(block):
                self.put(block)
            else:
                self.blocks.append([])
                self.margins.append(MARGIN)
                block += 1


def as_upstream(sizes: list[int], minimum: int) -> list[list[int]]:
    upstream = Upstream(sizes, minimum)
    upstream.steps_1_and_2()
    for _ in range(32):
        upstream.step_3()
    upstream.step_4()
    return [[index for index, _ in members] for members in upstream.blocks if members]


@pytest.fixture(autouse=True)
def _own_random() -> None:
    """The oracle seeds the module's generator, as upstream does."""
    random.seed()


# Large against a block, so that few items make several blocks and misfits.
SIZES = st.lists(
    st.one_of(
        st.integers(1, MARGIN),
        st.sampled_from([1 << 20, 1 << 22, 5_000_000, 64, MARGIN]),
        st.integers(200_000, 900_000),
    ),
    max_size=60,
)


@given(SIZES, st.integers(1, 12))
def test_the_blocks_are_those_of_upstreams_four_steps(sizes: list[int], minimum: int) -> None:
    assert arrange_level0(sizes, minimum) == as_upstream(sizes, minimum)


@given(SIZES)
def test_so_they_are_with_the_minimum_that_the_sizes_give(sizes: list[int]) -> None:
    minimum = minimum_blocks(sizes)
    assert arrange_level0(sizes, minimum) == as_upstream(sizes, minimum)


@given(st.integers(1, 300), st.integers(1, 8), st.sampled_from([100, 1 << 19, 1 << 20]))
def test_so_they_are_with_equal_sizes(count: int, minimum: int, size: int) -> None:
    sizes = [size] * count
    assert arrange_level0(sizes, minimum) == as_upstream(sizes, minimum)


@given(SIZES, st.integers(1, 12))
def test_every_image_is_in_one_block_and_no_block_overflows(sizes: list[int], minimum: int) -> None:
    blocks = arrange_level0(sizes, minimum)
    assert sorted(index for members in blocks for index in members) == list(range(len(sizes)))
    assert all(blocks)
    assert all(sum(aligned(sizes[i]) for i in members) <= MARGIN for members in blocks)


def test_the_largest_seed_the_blocks_and_of_equal_ones_the_last() -> None:
    big = MARGIN - 64
    # Image 2 seeds the first block, which takes the small one and so is the fullest;
    # the others have equal room, and go by their first image.
    assert arrange_level0([big, big, big, 64], 3) == [[2, 3], [0], [1]]
    assert arrange_level0([64, 128, 64], 1)[0][0] == 1


def test_a_misfit_opens_a_block_and_none_goes_back() -> None:
    half = MARGIN // 2 // 64 * 64 + 64
    assert arrange_level0([half, half, half], 1) == as_upstream([half, half, half], 1)
    assert len(arrange_level0([half, half, half], 1)) == 3


def test_too_few_images_for_the_minimum_make_no_empty_block() -> None:
    assert arrange_level0([64, 128], 5) in ([[0], [1]], [[1], [0]])
    assert arrange_level0([], 5) == []


def test_more_tiny_images_than_an_index_holds_are_refused_with_a_way_out() -> None:
    assert [len(members) for members in arrange_level0([64] * 340, 1)] == [340]
    with pytest.raises(PackError, match=r"341 images into block 0.*340.*min-blocks"):
        arrange_level0([64] * 341, 1)
    # The way out: seeding takes one each, so the first block gets fewer.
    assert len(arrange_level0([64] * 1000, 700)) == 700


def test_the_minimum_is_what_the_bytes_fill_rounded_down() -> None:
    assert minimum_blocks([]) == 1
    assert minimum_blocks([64]) == 1
    assert minimum_blocks([MARGIN]) == 1
    assert minimum_blocks([MARGIN, MARGIN - 64]) == 1
    assert minimum_blocks([MARGIN, MARGIN - 63]) == 2  # aligned up, they fill two
    assert minimum_blocks([MARGIN] * 7) == 7


def test_imagenets_own_counts_have_upstreams_minimum() -> None:
    assert minimum_blocks([64] * 1_281_167) == 8700
    assert minimum_blocks([64] * 50_000) == 400
    assert minimum_blocks([64] * 49_999) == 1


def image(name: str) -> SourceImage:
    return SourceImage(name, 0, NOWHERE)


def test_images_are_ordered_by_file_name_and_equal_ones_by_folder() -> None:
    names = ["b/2.jpeg", "z/1.jpeg", "a/1.jpeg", "a/x/1.jpeg", "1.jpeg", "a/10.jpeg"]
    ordered = [names[i] for i in name_order([image(name) for name in names])]
    assert ordered == ["1.jpeg", "a/1.jpeg", "a/x/1.jpeg", "z/1.jpeg", "a/10.jpeg", "b/2.jpeg"]


@given(st.permutations(["a/1", "b/1", "a/2", "c/d/1", "0"]))
def test_the_name_order_does_not_depend_on_the_listing(names: list[str]) -> None:
    ordered = [names[i] for i in name_order([image(name) for name in names])]
    assert ordered == ["0", "a/1", "b/1", "c/d/1", "a/2"]


@given(st.integers(0, 200))
def test_the_levels_above_are_shuffled_with_seed_42(count: int) -> None:
    order = list(range(count))
    random.seed(42)
    random.shuffle(order)
    assert shuffled(count) == order


def test_arranging_leaves_the_programs_random_numbers_alone() -> None:
    random.seed(1)
    expected = random.random()
    random.seed(1)
    shuffled(10)
    arrange_level0([64] * 10, 2)
    assert random.random() == expected
