"""The arithmetic of the levels, against upstream's written out again in doubles."""

from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dtsflow.errors import PackError
from dtsflow.volume.packing.options import Encoding, Level, Recipe

Size = tuple[int, int]

SIDES = st.integers(1, 6000)
LEVELS_ABOVE_0 = st.sampled_from(get_args(Level)[1:])
# Both sides of which the double product of 400 / side falls below 400.
SHORT_BY_ONE = [side for side in range(401, 6001) if int(side * (400.0 / side)) == 399]


def recipe(level: Level, *, upstream: bool = False) -> Recipe:
    made = Encoding(level=level).recipe(upstream=upstream)
    assert made is not None
    return made


def result(made: Recipe, width: int, height: int) -> Size:
    size = made.scaled(width, height)
    box = made.window(*size)
    return size if box is None else (box[2] - box[0], box[3] - box[1])


def upstream_size(width: int, height: int, level: int) -> tuple[Size, tuple[int, ...] | None]:
    """UPSTREAM.md 2.2 word for word: the scaled size, and the box if it is cut."""
    landscape = width > height
    side = height if landscape else width
    new_width, new_height = width, height
    if side > (400 if level == 1 else 440):
        scale = 400.0 / side
        new_width, new_height = int(width * scale), int(height * scale)
    limit_width, limit_height = (600, 400) if landscape else (400, 600)
    if (new_width <= limit_width and new_height <= limit_height) or level < 2:
        return (new_width, new_height), None
    final_width, final_height = min(new_width, limit_width), min(new_height, limit_height)
    left, top = (new_width - final_width) // 2, (new_height - final_height) // 2
    return (new_width, new_height), (left, top, left + final_width, top + final_height)


def test_some_short_sides_come_out_one_pixel_short_in_doubles() -> None:
    assert len(SHORT_BY_ONE) > 100


@given(st.sampled_from(SHORT_BY_ONE), st.integers(0, 2000), LEVELS_ABOVE_0)
def test_upstream_truncates_to_399_where_doubles_do(side: int, more: int, level: Level) -> None:
    if side > 440 or level == 1:
        assert min(recipe(level, upstream=True).scaled(side, side + more)) == 399
        assert min(recipe(level, upstream=True).scaled(side + more, side)) == 399
        assert min(recipe(level).scaled(side, side + more)) == 400


@given(SIDES, SIDES, LEVELS_ABOVE_0)
@example(501, 500, 2)  # nearly square: cut off, both sides are 400
@example(500, 500, 3)
def test_upstream_sizes_and_boxes_are_those_of_its_script(
    width: int, height: int, level: Level
) -> None:
    made = recipe(level, upstream=True)
    size, box = upstream_size(width, height, level)
    assert made.scaled(width, height) == size
    assert made.window(*size) == box


@given(SIDES, SIDES, LEVELS_ABOVE_0)
def test_the_default_is_exact(width: int, height: int, level: Level) -> None:
    made = recipe(level)
    side = min(width, height)
    got = made.scaled(width, height)
    if side <= made.boundary:
        assert got == (width, height)
    else:
        assert min(got) == 400
        assert 0 <= 400 * max(width, height) - max(got) * side < side
        assert (got[0] >= got[1]) == (width >= height) or got[0] == got[1]


@pytest.mark.parametrize(
    ("level", "side", "scaled"),
    [
        (1, 400, 400),
        (1, 401, 400),
        (2, 401, 401),
        (2, 440, 440),
        (2, 441, 400),
        (3, 401, 401),
        (3, 440, 440),
        (3, 441, 400),
    ],
)
@pytest.mark.parametrize("upstream", [False, True])
def test_the_boundary_is_400_at_level_1_and_440_above(
    level: Level, side: int, scaled: int, *, upstream: bool
) -> None:
    made = recipe(level, upstream=upstream)
    assert made.scaled(side, 500)[0] == scaled
    assert made.scaled(500, side)[1] == scaled


def test_between_400_and_440_levels_2_and_3_cut_and_level_1_scales() -> None:
    assert recipe(2).window(500, 430) == (0, 15, 500, 415)
    assert recipe(3).window(430, 500) == (15, 0, 415, 500)
    assert recipe(1).scaled(500, 430) == (465, 400)
    assert recipe(1).window(5000, 430) is None


def test_a_square_is_cut_as_a_portrait() -> None:
    assert recipe(2).window(430, 430) == (15, 0, 415, 430)
    assert recipe(2).window(431, 430) == (0, 15, 431, 415)


def test_an_odd_rest_is_cut_more_at_the_far_end() -> None:
    assert recipe(2).window(603, 401) == (1, 0, 601, 400)


@given(SIDES, SIDES, LEVELS_ABOVE_0)
def test_what_is_kept_lies_inside_and_is_the_middle(width: int, height: int, level: Level) -> None:
    box = recipe(level).window(width, height)
    if box is None:
        return
    left, top, right, bottom = box
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height
    assert 0 <= (width - right) - left <= 1
    assert 0 <= (height - bottom) - top <= 1


@pytest.mark.parametrize("size", [(1, 1), (1, 2000), (2000, 1), (65_535, 1)])
@pytest.mark.parametrize("level", get_args(Level)[1:])
def test_thin_images_are_never_scaled_to_nothing(size: Size, level: Level) -> None:
    assert min(result(recipe(level), *size)) == 1
    assert max(result(recipe(level), *size)) == (max(size) if level == 1 else min(max(size), 600))


def test_the_qualities_are_those_of_the_levels() -> None:
    assert [recipe(level).quality for level in get_args(Level)[1:]] == [90, 90, 80]


def test_a_changed_short_side_brings_its_boundary_and_its_long_side() -> None:
    made = Encoding(level=2, short=200).recipe()
    assert made is not None
    assert (made.boundary, made.short, made.long) == (220, 200, 300)
    assert result(made, 1000, 300) == (300, 200)
    made = Encoding(level=2, short=200, long=250, quality=7, subsampling="4:4:4").recipe()
    assert made is not None
    assert (made.long, made.quality, made.subsampling) == (250, 7, "4:4:4")
    made = Encoding(level=1, short=200).recipe()
    assert made is not None
    assert made.boundary == 200


def test_level_0_has_no_recipe() -> None:
    assert Encoding().recipe() is None
    assert Encoding().recipe(upstream=True) is None


@pytest.mark.parametrize(
    "encoding",
    [
        Encoding(level=0, short=300),
        Encoding(level=0, long=300),
        Encoding(level=0, quality=90),
        Encoding(level=0, quality=0),
        Encoding(level=0, subsampling="4:2:0"),
        Encoding(level=1, long=700),
        Encoding(level=1, short=0),
        Encoding(level=1, short=-1),
        Encoding(level=1, quality=0),
        Encoding(level=1, quality=101),
        Encoding(level=1, quality=-5),
        Encoding(level=2, long=0),
        Encoding(level=2, long=399),
        Encoding(level=2, short=700, long=600),
        Encoding(level=3, long=1 << 16),
        Encoding(level=3, subsampling="4:1:1"),
        Encoding(level=3, subsampling=""),
        Encoding(level=4),  # type: ignore[arg-type]  # what a careless caller gives
        Encoding(level=-1),  # type: ignore[arg-type]  # the same
    ],
    ids=repr,
)
def test_an_option_out_of_range_or_without_meaning_is_refused(encoding: Encoding) -> None:
    with pytest.raises(PackError, match=r"no meaning|no limits|out of range|unknown|not exist"):
        encoding.recipe()


@pytest.mark.parametrize("level", get_args(Level))
@pytest.mark.parametrize(
    "given_option", [{"short": 400}, {"long": 600}, {"quality": 90}, {"subsampling": "4:2:0"}]
)
def test_upstream_takes_no_change_not_even_to_its_own_values(
    level: Level, given_option: dict[str, object]
) -> None:
    encoding = Encoding(level=level, **given_option)  # type: ignore[arg-type]  # of mixed types
    with pytest.raises(PackError, match="upstream's levels are fixed"):
        encoding.recipe(upstream=True)


def test_the_limits_themselves_are_allowed() -> None:
    assert Encoding(level=1, quality=1).recipe() is not None
    assert Encoding(level=2, quality=100, short=1, long=1).recipe() is not None
    assert Encoding(level=2, long=65_535).recipe() is not None


def test_the_facts_tell_recipes_apart() -> None:
    facts = [
        recipe(level, upstream=upstream).facts()
        for level in (1, 2, 3)
        for upstream in (False, True)
    ]
    assert len({repr(one) for one in facts}) == 6
    assert Recipe(**facts[0]) == recipe(1)
