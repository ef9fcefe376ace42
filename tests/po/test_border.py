import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import integers, sampled_from

from dtsflow.po.geometry import BORDERS, Border, cut, frames, margins, sources, windows

MIRRORS: tuple[Border, ...] = ("edge", "reflect", "symmetric")


def one_by_one(place: int, side: int, border: Border) -> int:
    """Walk back into the image, a mirror at a time."""
    if border == "edge" or side == 1:
        return min(max(place, 0), side - 1)
    repeated = int(border == "symmetric")
    while not 0 <= place < side:
        place = -place - repeated if place < 0 else 2 * (side - 1) - place + repeated
    return place


@given(integers(-40, 40), integers(1, 12), sampled_from(MIRRORS))
def test_a_place_outside_is_found_by_going_from_mirror_to_mirror(
    place: int, side: int, border: Border
) -> None:
    assert sources(place, 1, side, border).tolist() == [one_by_one(place, side, border)]


@given(
    integers(1, 9),
    integers(1, 9),
    integers(0, 30),
    integers(0, 30),
    sampled_from(BORDERS),
)
def test_a_window_around_the_image_is_numpys_pad(
    rows: int, columns: int, before: int, after: int, border: Border
) -> None:
    image = np.random.default_rng((rows, columns)).integers(0, 256, (rows, columns, 3), np.uint8)
    height, width = rows + before + after, columns + before + after
    window = windows(np.array([-before]), np.array([-before]), height, width)
    out = np.full((height, width, 3), 0xCC, np.uint8)
    cut(image, out, frames(window, border, 0)[0])
    widths = ((before, after), (before, after), (0, 0))
    assert np.array_equal(out, np.pad(image, widths, border))


@pytest.mark.parametrize("border", BORDERS)
def test_a_window_inside_never_shows_the_border(border: Border) -> None:
    image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    out = np.empty((2, 3, 3), np.uint8)
    cut(image, out, frames(windows(np.array([1]), np.array([1]), 2, 3), border, 200)[0])
    assert np.array_equal(out, image[1:3, 1:4])


def test_a_window_far_outside_is_all_colour() -> None:
    out = np.empty((2, 2, 3), np.uint8)
    window = windows(np.array([-50]), np.array([70]), 2, 2)
    cut(np.zeros((4, 4, 3), np.uint8), out, frames(window, "constant", (1, 2, 3))[0])
    assert (out == (1, 2, 3)).all()


@pytest.mark.parametrize(
    ("padding", "ltrb"),
    [(3, (3, 3, 3, 3)), ((1, 2), (1, 2, 1, 2)), ((1, 2, 3, 4), (1, 2, 3, 4))],
)
def test_margins_are_read_as_torchvision_reads_them(
    padding: int | tuple[int, int], ltrb: tuple[int, ...]
) -> None:
    assert margins(padding) == ltrb
