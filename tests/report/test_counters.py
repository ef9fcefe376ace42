import time

import numpy as np
import pytest

from dtsflow.report.counters import Counters, PhaseCounters


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, as its last entry."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[-1])
    return now


def valid(*rows: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array(rows, np.bool_)


def test_valid_rows_and_batches_are_counted_and_waits_add_up(clock: list[float]) -> None:
    counters = Counters(opened=1.0, rss_before=0)
    for asked, there in ((2.0, 5.0), (6.0, 7.0)):
        clock.append(there)
        counters.delivered(valid(1, 0, 1), asked, "train")
    assert (counters.images, counters.steps) == (4, 2)
    assert counters.waited_s == 3.0 + 1.0
    assert (counters.first_asked, counters.first_batch, counters.last_batch) == (2.0, 5.0, 7.0)


def test_speed_is_from_the_first_request_to_the_last_batch(clock: list[float]) -> None:
    counters = Counters(opened=1.0, rss_before=0)
    assert counters.images_per_s == 0
    clock.append(4.0)
    counters.delivered(valid(1, 1, 1), 2.0, "train")
    clock.append(8.0)
    counters.delivered(valid(1, 1, 1), 7.5, "val")
    clock.append(100.0)
    assert counters.images_per_s == 6 / (8.0 - 2.0)
    assert counters.phases == {"train": PhaseCounters(3, 1, 2.0), "val": PhaseCounters(3, 1, 0.5)}


def test_a_clock_too_coarse_for_a_speed_gives_none(clock: list[float]) -> None:
    counters = Counters(opened=0.0, rss_before=0)
    clock.append(3.0)
    counters.delivered(valid(1), 3.0, "train")
    assert counters.images_per_s == 0
