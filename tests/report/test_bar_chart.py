import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.report.compare import _COLOUR, Bar, bar_chart, ticks


def widths(bars: list[Bar]) -> list[int]:
    """The lengths of the bars, from the pixels."""
    pixels = np.asarray(bar_chart("speed", bars))
    inked = (pixels == _COLOUR).all(axis=2).sum(axis=1)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], inked > 0, [0]))))
    return [int(inked[start]) for start in edges[::2]]


def test_bars_are_as_long_as_their_figures() -> None:
    long, middle, short = widths([Bar("a", 100.0, ""), Bar("b", 50.0, ""), Bar("c", 1.0, "")])
    assert middle == pytest.approx(long / 2, abs=1)
    assert short == pytest.approx(long / 100, abs=1)


def test_a_run_without_a_figure_has_words_and_no_bar() -> None:
    bars = [Bar("a", 100.0, "100"), Bar("b", None, "failed: it did")]
    assert len(widths(bars)) == 1
    without = np.asarray(bar_chart("speed", [bars[0], Bar("b", None, "")]))
    assert (np.asarray(bar_chart("speed", bars)) != without).any()


def test_a_long_label_leaves_room_for_the_bars() -> None:
    assert widths([Bar("x" * 500, 1.0, "1 " * 300)])[0] > 300


def test_nothing_but_zeros_can_be_drawn() -> None:
    assert bar_chart("speed", [Bar("a", 0.0, "0")]).size[1] > 0


def test_letters_that_the_font_lacks_are_question_marks() -> None:
    drawn = bar_chart("geschwindigkeit", [Bar("größe=…", 1.0, "1")])
    assert drawn.tobytes() == bar_chart("geschwindigkeit", [Bar("gr??e=?", 1.0, "1")]).tobytes()


@given(st.floats(1e-6, 1e12))
def test_ticks_are_a_few_round_numbers_up_to_the_largest(largest: float) -> None:
    found = ticks(largest)
    assert found[0] == 0.0
    assert 3 <= len(found) <= 12
    assert found[-1] <= largest * 1.0001
    digits = f"{found[1]:e}".partition("e")[0]
    assert digits in ("1.000000", "2.000000", "5.000000")
