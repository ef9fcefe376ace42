import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dtsflow.config.compose import compose
from dtsflow.errors import ClosedError
from dtsflow.pipeline.build import build
from dtsflow.pipeline.checkpoint import State
from dtsflow.pipeline.plan import Plan
from dtsflow.pipeline.planner import plan_run
from dtsflow.pipeline.resources import Resources
from dtsflow.ranks.group import Rank, SingleProcess
from dtsflow.station.double_buffer import DoubleBuffer
from dtsflow.station.zone import Zone
from dtsflow.testing import write_small_set
from dtsflow.volume.format.header import Kind


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    path = write_small_set(tmp_path / "mnist_test.dts", Kind.MNIST, 40)
    words = [f"volume.path={path}", "batch_size=4", "workers=2", "station.poison=true"]
    return plan_run(build(compose(words).values), Rank(0, 1))


@pytest.fixture
def resources(plan: Plan) -> Iterator[Resources]:
    made = Resources(plan, None, State("train", 0, 0, {}), SingleProcess())
    yield made
    made.close()


def turns_of(plan: Plan) -> DoubleBuffer:
    return DoubleBuffer(range(plan.phases["train"].order.steps), plan.phases["train"].chunks)


def first_zone(resources: Resources) -> Zone:
    assert resources._arena is not None
    return resources._arena.zones["train"][0]


def threads() -> list[str]:
    return sorted(t.name for t in threading.enumerate() if t.name.startswith("dtsflow"))


def test_a_new_pass_ends_the_one_before(plan: Plan, resources: Resources) -> None:
    first, second = turns_of(plan), turns_of(plan)
    resources.begin("train", 0, first)
    assert first.wait(10) == 0
    resources.begin("train", 1, second)
    with pytest.raises(ClosedError):
        first.wait(10)
    assert second.wait(10) == 0


def test_a_pass_that_has_ended_gives_back_no_zone_of_the_next(
    plan: Plan, resources: Resources
) -> None:
    first, second = turns_of(plan), turns_of(plan)
    feed = resources.begin("train", 0, first)
    feed.take()
    resources.begin("train", 1, second)
    second.wait(10)
    filled = first_zone(resources).sample_ids.copy()
    feed.give_back()
    resources.end(first)
    assert np.array_equal(first_zone(resources).sample_ids, filled)
    assert (filled >= 0).all()
    assert second.wait(10) == 0


def test_a_released_zone_is_poisoned_and_filled_again(plan: Plan, resources: Resources) -> None:
    double_buffer = DoubleBuffer(range(1), plan.phases["train"].chunks)
    feed = resources.begin("train", 0, double_buffer)
    feed.take()
    feed.give_back()
    assert (first_zone(resources).sample_ids == -1).all()
    assert first_zone(resources).valid.view(np.uint8).tolist() == [0xFF] * 4


def test_after_close_there_is_no_thread_and_no_new_pass(plan: Plan) -> None:
    resources = Resources(plan, None, State("train", 0, 0, {}), SingleProcess())
    assert "dtsflow-worker-1" in threads()
    double_buffer = turns_of(plan)
    resources.begin("train", 0, double_buffer)
    resources.close()
    resources.close()
    assert not threads()
    with pytest.raises(ClosedError):
        double_buffer.wait(10)
    with pytest.raises(ClosedError, match="open the plan again"):
        resources.begin("train", 0, turns_of(plan))


def test_times_are_summed_over_the_workers(resources: Resources) -> None:
    resources.phases["train"].engines[0].times.decode = 2.0
    resources.phases["train"].engines[1].times.decode = 3.0
    assert resources.times.decode == 5.0
