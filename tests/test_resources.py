import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dtsflow.build import build
from dtsflow.compose import compose
from dtsflow.errors import ClosedError
from dtsflow.plan import Plan
from dtsflow.ranks.rank import Rank
from dtsflow.resources import Resources
from dtsflow.state import State
from dtsflow.station.turns import Turns
from dtsflow.testing import write_small_set
from dtsflow.volume.format import Kind


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    path = write_small_set(tmp_path / "mnist_test.dts", Kind.MNIST, 40)
    words = [f"volume.path={path}", "batch_size=4", "workers=2", "station.poison=true"]
    return build(compose(words).values).plan(Rank(0, 1))


@pytest.fixture
def resources(plan: Plan) -> Iterator[Resources]:
    made = Resources(plan, None, State("train", 0, 0, {}))
    yield made
    made.close()


def turns_of(plan: Plan) -> Turns:
    return Turns(range(plan.order.steps), plan.chunks)


def threads() -> list[str]:
    return sorted(t.name for t in threading.enumerate() if t.name.startswith("dtsflow"))


def test_a_new_pass_ends_the_one_before(plan: Plan, resources: Resources) -> None:
    first, second = turns_of(plan), turns_of(plan)
    resources.begin(plan, 0, first)
    assert first.wait(10) == 0
    resources.begin(plan, 1, second)
    with pytest.raises(ClosedError):
        first.wait(10)
    assert second.wait(10) == 0


def test_a_pass_that_has_ended_gives_back_no_zone_of_the_next(
    plan: Plan, resources: Resources
) -> None:
    first, second = turns_of(plan), turns_of(plan)
    resources.begin(plan, 0, first)
    first.wait(10)
    resources.begin(plan, 1, second)
    second.wait(10)
    filled = resources.arena.zones[0].sample_ids.copy()
    resources.release(first, 0)
    resources.end(first)
    assert np.array_equal(resources.arena.zones[0].sample_ids, filled)
    assert (filled >= 0).all()
    assert second.wait(10) == 0


def test_a_released_zone_is_poisoned_and_filled_again(plan: Plan, resources: Resources) -> None:
    turns = Turns(range(1), plan.chunks)
    resources.begin(plan, 0, turns)
    turns.wait(10)
    resources.release(turns, 0)
    assert (resources.arena.zones[0].sample_ids == -1).all()
    assert resources.arena.zones[0].valid.view(np.uint8).tolist() == [0xFF] * 4


def test_after_close_there_is_no_thread_and_no_new_pass(plan: Plan) -> None:
    resources = Resources(plan, None, State("train", 0, 0, {}))
    assert "dtsflow-worker-1" in threads()
    turns = turns_of(plan)
    resources.begin(plan, 0, turns)
    resources.close()
    resources.close()
    assert not threads()
    with pytest.raises(ClosedError):
        turns.wait(10)
    with pytest.raises(ClosedError, match="open the plan again"):
        resources.begin(plan, 0, turns_of(plan))


def test_times_are_summed_over_the_workers(resources: Resources) -> None:
    resources.engines[0].times.decode = 2.0
    resources.engines[1].times.decode = 3.0
    assert resources.times.decode == 5.0
