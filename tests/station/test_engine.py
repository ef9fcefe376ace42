import numpy as np

from dtsflow.errors import DecodeError
from dtsflow.reader.samples import Samples
from dtsflow.station.engine import StageTimes, located


def test_times_of_workers_add_up_stage_by_stage() -> None:
    parts = [StageTimes(1, 20, 300), StageTimes(4, 50, 600)]
    assert StageTimes.sum_of(iter(parts)) == StageTimes(5, 70, 900)
    assert parts[0] == StageTimes(1, 20, 300)
    assert StageTimes.sum_of([]) == StageTimes()


def test_a_refused_sample_is_named_by_place_label_and_id() -> None:
    ids = np.array([40, 41], np.int64)
    none = np.empty(0, np.uint8)
    samples = Samples(none, ids * 0, ids * 0, np.array([6, 7], np.int32), ids)
    error = located(DecodeError("it is cut"), samples, 1, lambda i: f"a.dts sample {i}")
    place = "a.dts sample 41 (label 7, sample_id 41) cannot be decoded: it is cut. Replace"
    assert str(error).startswith(place)
