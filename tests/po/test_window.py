import numpy as np

from dtsflow.po.geometry import WINDOW, same_size, sides, windows


def test_a_single_size_is_a_square() -> None:
    assert sides(7) == (7, 7)
    assert sides((3, 4)) == (3, 4)


def test_windows_are_16_bytes_in_the_order_y_x_h_w() -> None:
    made = windows(np.array([1, 2]), np.array([3, 4]), 5, np.array([6, 7]))
    assert WINDOW.itemsize == 16
    assert made.tolist() == [(1, 3, 5, 6), (2, 4, 5, 7)]


def test_samples_that_come_out_alike_have_a_row_each() -> None:
    assert same_size(2, 3, 4).tolist() == [[3, 4], [3, 4]]
