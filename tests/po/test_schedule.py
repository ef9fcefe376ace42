from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dtsflow.errors import ConfigError
from dtsflow.po.chain import Chain, describe
from dtsflow.po.crop import RandomResizedCrop
from dtsflow.po.flip import RandomHorizontalFlip
from dtsflow.po.schedule import MOST_EPOCHS, Schedule, Scheduled

CROP = "dtsflow.po.RandomResizedCrop"


def stepwise(*points: tuple[int, int]) -> Schedule:
    return Schedule(points)


def test_a_value_holds_until_the_next_point() -> None:
    schedule = stepwise((0, 160), (16, 192), (18, 224))
    found = [schedule.at(epoch) for epoch in (0, 15, 16, 17, 18, 10**9)]
    assert found == [160, 160, 192, 192, 224, 224]
    assert schedule.epochs == (0, 16, 18)


def test_a_line_of_whole_numbers_goes_in_multiples() -> None:
    schedule = Schedule(((0, 160), (16, 224)), linear=True, multiple=32)
    found = [schedule.at(epoch) for epoch in range(18)]
    # 176 and 208 lie halfway, and half goes to even, to six times 32.
    assert found == [160] * 4 + [192] * 9 + [224] * 5
    assert all(isinstance(value, int) for value in found)


def test_several_values_go_side_by_side() -> None:
    schedule = Schedule(((0, (0.25, 1.0)), (4, (0.05, 1.0))), linear=True)
    assert schedule.at(1) == pytest.approx((0.2, 1.0))
    assert schedule.at(9) == (0.05, 1.0)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.floats(-100, 100)), min_size=1, max_size=4),
    st.floats(-100, 100),
    st.integers(0, 200),
)
def test_a_line_meets_its_points_and_lies_between_them(
    gaps: list[tuple[int, float]], first: float, epoch: int
) -> None:
    points = [(0, first)]
    for gap, value in gaps:
        points.append((points[-1][0] + gap, value))
    schedule = Schedule(tuple(points), linear=True)
    assert [schedule.at(place) for place, _ in points] == [value for _, value in points]
    before = max(point for point in points if point[0] <= epoch)
    after = min((point for point in points if point[0] > epoch), default=before)
    found = schedule.at(epoch)
    assert isinstance(found, float)
    assert min(before[1], after[1]) <= found <= max(before[1], after[1])
    if after != before:
        way = Fraction(epoch - before[0], after[0] - before[0])
        exact = Fraction(before[1]) * (1 - way) + Fraction(after[1]) * way
        assert found == float(exact)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"points": ()}, "at least 1 item"),
        ({"points": ((4, 160),)}, "the epochs before it have no value"),
        ({"points": ((-1, 160), (0, 224))}, "epoch -1 is below 0"),
        ({"points": ((0, 160), (8, 192), (4, 224))}, "epoch 4 comes after epoch 8"),
        ({"points": ((0, 160), (4, 192), (4, 224))}, "epoch 4 comes after epoch 4"),
        ({"points": ((0, 160), (4, (1, 2)))}, "different numbers of values"),
        ({"points": ((0, 160), (4.5, 224))}, "valid integer"),
        ({"points": ((0, "big"),)}, "valid"),
        ({"points": ((0, True),)}, "valid"),
        ({"points": ((0, float("nan")),)}, "finite"),
        ({"points": ((0, 1), (MOST_EPOCHS + 1, 2)), "linear": True}, "has a value for each epoch"),
        ({"points": ((0, 160), (4, 224)), "multiple": 32}, "for lines of whole numbers"),
        ({"points": ((0, 0.5), (4, 1.0)), "linear": True, "multiple": 2}, "for lines of whole"),
        ({"points": ((0, 160), (4, 225)), "linear": True, "multiple": 32}, "225 is no multiple"),
        ({"points": ((0, 160),), "multiple": 0}, "greater than or equal to 1"),
    ],
)
def test_what_makes_no_schedule_is_refused_with_the_reason(
    values: dict[str, object], told: str
) -> None:
    with pytest.raises(ValidationError, match=told):
        Schedule(**values)  # type: ignore[arg-type]  # as a configuration gives them


def test_an_operation_is_made_for_each_change() -> None:
    made = Scheduled.of(
        CROP, {"size": stepwise((0, 8), (4, 16)), "scale": Schedule(((0, (0.5, 1)), (2, (0.1, 1))))}
    )
    assert made.stages == (
        (0, RandomResizedCrop(8, (0.5, 1))),
        (2, RandomResizedCrop(8, (0.1, 1))),
        (4, RandomResizedCrop(16, (0.1, 1))),
    )
    assert made.at(3) == RandomResizedCrop(8, (0.1, 1))
    assert made.at(10**9) == RandomResizedCrop(16, (0.1, 1))


def test_a_point_that_changes_nothing_makes_no_stage_and_no_other_facts() -> None:
    made = Scheduled.of(CROP, {"size": stepwise((0, 8), (4, 8))})
    assert made.stages == ((0, RandomResizedCrop(8)),)
    assert Chain((made,)).facts() == Chain((RandomResizedCrop(8),)).facts()
    other = Scheduled.of(CROP, {"size": stepwise((0, 8), (4, 9))})
    assert Chain((other,)).facts() != Chain((made,)).facts()


def test_a_value_that_the_operation_refuses_is_told_with_its_epoch() -> None:
    with pytest.raises(ConfigError, match=r"from epoch 4 on, size.*greater than 0"):
        Scheduled.of(CROP, {"size": stepwise((0, 8), (4, -8))})
    with pytest.raises(
        ConfigError, match=r"from epoch 0 on, RandomResizedCrop: .*from 1\.0 to 0\.5"
    ):
        Scheduled.of(CROP, {"size": stepwise((0, 8)), "scale": (1.0, 0.5)})
    with pytest.raises(ConfigError, match="Normalize is the same in all epochs"):
        Scheduled.of("dtsflow.po.Normalize", {"mean": Schedule(((0, 0.5),)), "std": (1.0,)})


def test_the_plan_tells_changes_one_by_one_if_they_are_few() -> None:
    crop = Scheduled.of(CROP, {"size": stepwise((0, 8), (4, 16))})
    flip = Scheduled.of(
        "dtsflow.po.RandomHorizontalFlip", {"p": Schedule(((0, 0.0), (8, 1.0)), linear=True)}
    )
    assert describe((crop, flip, RandomHorizontalFlip())) == [
        "RandomResizedCrop(size=8, scale=(0.08, 1), ratio=(0.75, 1.333), antialias=True), "
        "from epoch 4 size=16",
        "RandomHorizontalFlip(p=0), 8 changes to p=1 from epoch 8 on",
        "RandomHorizontalFlip(p=0.5)",
    ]
