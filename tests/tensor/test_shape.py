from math import prod

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists

from dtsflow.errors import MemoryPlanError
from dtsflow.tensor.shape import Shape

sides = integers(1, 1 << 20)


@pytest.mark.parametrize(
    ("dims", "stored"),
    [
        ((5,), Shape(5, 1, 1, 1)),
        ((5, 2), Shape(5, 1, 1, 2)),
        ((5, 7, 2), Shape(5, 1, 7, 2)),
        ((5, 6, 7, 2), Shape(5, 6, 7, 2)),
    ],
)
def test_logical_dimensions_keep_batch_first_and_channels_last(
    dims: tuple[int, ...], stored: Shape
) -> None:
    assert Shape.from_logical(dims) == stored


@given(lists(sides, min_size=1, max_size=4))
def test_storing_keeps_the_elements_and_their_order(dims: list[int]) -> None:
    shape = Shape.from_logical(dims)
    assert shape.numel == prod(dims)
    assert [side for side in shape if side > 1] == [side for side in dims if side > 1]


@pytest.mark.parametrize("dims", [(), (1, 2, 3, 4, 5)])
def test_no_dimensions_and_more_than_four_are_refused(dims: tuple[int, ...]) -> None:
    with pytest.raises(MemoryPlanError, match=f"with {len(dims)} dimensions"):
        Shape.from_logical(dims)


@pytest.mark.parametrize("name", ["n", "h", "w", "c"])
@pytest.mark.parametrize("side", [0, -1, 1.5])
def test_a_side_that_is_no_positive_whole_number_is_named(name: str, side: int) -> None:
    given_sides = {"n": 2, "h": 2, "w": 2, "c": 2, name: side}
    with pytest.raises(MemoryPlanError, match=f"{name} is {side}"):
        Shape(**given_sides)


def test_a_shape_unpacks_into_its_sides() -> None:
    n, h, w, c = Shape(2, 3, 5, 7)
    assert (n, h, w, c) == (2, 3, 5, 7)


def test_a_shape_prints_its_sides() -> None:
    assert str(Shape(256, 224, 224, 3)) == "[256,224,224,3]"
