import numpy as np

from dtsflow.arena.arena import Form
from dtsflow.arena.host import Host
from dtsflow.errors import DecodeError
from dtsflow.memory.plan import MemoryPlan
from dtsflow.reader.store import Samples
from dtsflow.spec import ImageSpec
from dtsflow.station.engine import Address, Bad, Places, StageTimes, fill_others, too_big
from dtsflow.station.zone import Zone
from dtsflow.tensor.dtype import DType


def test_times_of_workers_add_up_stage_by_stage() -> None:
    parts = [StageTimes(1, 20, 300), StageTimes(4, 50, 600)]
    assert StageTimes.sum_of(iter(parts)) == StageTimes(5, 70, 900)
    assert parts[0] == StageTimes(1, 20, 300)
    assert StageTimes.sum_of([]) == StageTimes()


class OddIsBad:
    """Finds every sample with an odd id bad, and remembers what it was given."""

    def __init__(self) -> None:
        self.times = StageTimes()
        self.given: list[tuple[int, int]] = []

    def fill(self, samples: Samples, address: Address, zone: Zone, places: Places) -> Bad:
        assert (address, zone) == (ADDRESS, ZONE)
        self.given += zip(samples.ids.tolist(), places.tolist(), strict=True)
        return self.probe(samples)

    def probe(self, samples: Samples) -> Bad:
        odd = np.flatnonzero(samples.ids % 2)
        return {int(number): DecodeError(f"{samples.ids[number]} is odd") for number in odd}


ADDRESS = Address(0, 0, 0)
FORM = Form(1, ImageSpec(1, 1, 3), 3)
PLAN = MemoryPlan().input_buffers(batch=1, image=FORM.image, dtype=DType.UINT8).finalize()
ZONE = Host().open(PLAN, {"train": FORM}).zones["train"][0]


def samples_of(ids: list[int]) -> Samples:
    numbers = np.array(ids, np.int64)
    return Samples(
        np.empty(0, np.uint8), numbers * 0, numbers * 0, numbers.astype(np.int32), numbers
    )


def test_the_others_are_filled_and_their_own_bad_ones_keep_their_numbers() -> None:
    engine = OddIsBad()
    known = {0: DecodeError("known"), 3: DecodeError("known, too")}
    samples = samples_of([10, 11, 12, 13, 15])
    bad = fill_others(engine, samples, ADDRESS, ZONE, np.array([5, 6, 7, 8, 9]), known)
    assert engine.given == [(11, 6), (12, 7), (15, 9)]
    assert {number: str(error) for number, error in bad.items()} == {
        0: "known",
        3: "known, too",
        1: "11 is odd",
        4: "15 is odd",
    }


def test_where_all_are_bad_nothing_is_filled() -> None:
    engine = OddIsBad()
    known = {0: DecodeError("known")}
    assert fill_others(engine, samples_of([2]), ADDRESS, ZONE, np.array([0]), known) == known
    assert not engine.given


def test_a_sample_that_grows_out_of_all_bounds_is_bad() -> None:
    sizes = [np.array([[8, 8], [1 << 14, 1 << 14]]), np.array([[1 << 20, 1 << 9], [4, 4]])]
    bad = too_big(sizes)
    assert sorted(bad) == [0, 1]
    assert "1048576 x 512 pixels" in str(bad[0])
    assert "16384 x 16384 pixels" in str(bad[1])
