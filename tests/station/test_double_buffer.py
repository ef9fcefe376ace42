import threading
import time

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dtsflow.errors import ClosedError, StallError
from dtsflow.station.double_buffer import ZONES, DoubleBuffer


class Station(RuleBasedStateMachine):
    """Workers claim, finish and fail in any interleaving; a consumer waits and drains.

    At any moment the pass may be closed, as a break or another pass does. But most end
    later: of passes that end as soon as they may, hardly one has two batches at work.
    """

    @initialize(
        start=st.integers(0, 5),
        steps=st.integers(1, 6),
        chunks=st.integers(1, 4),
        calm=st.sampled_from([0, 10, 100]),
    )
    def begin(self, start: int, steps: int, chunks: int, calm: int) -> None:
        self.calm = calm  # how many chunks are claimed or finished before it may end
        self.steps, self.chunks = range(start, start + steps), chunks
        self.double_buffer = DoubleBuffer(self.steps, chunks)
        self.held: list[tuple[int, int]] = []
        self.claimed: list[tuple[int, int]] = []
        self.finished = dict.fromkeys(self.steps, 0)
        self.drained = 0
        self.failures: dict[int, list[ValueError]] = {}
        self.closed = False

    def ended(self) -> bool:
        return self.closed or bool(self.failures)

    def claimable(self) -> bool:
        reach = min(len(self.steps), self.drained + ZONES) * self.chunks
        return not self.ended() and len(self.claimed) < reach

    @precondition(lambda self: self.claimable())
    @rule()
    def claim(self) -> None:
        self.calm -= 1
        claimed = self.double_buffer.claim()
        assert claimed is not None
        self.claimed.append(claimed)
        self.held.append(claimed)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        step, _ = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.calm -= 1
        self.double_buffer.finish(step)
        self.finished[step] += 1

    @precondition(lambda self: self.held and self.calm <= 0)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        step, _ = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        error = ValueError(f"in batch {step}")
        self.double_buffer.fail(step, error)
        self.failures.setdefault(step, []).append(error)

    @precondition(lambda self: self.calm <= 0)
    @rule()
    def close(self) -> None:
        self.double_buffer.close()
        self.closed = True

    @precondition(lambda self: self.ended())
    @rule()
    def claim_after_the_end(self) -> None:
        assert self.double_buffer.claim() is None

    @precondition(lambda self: self.closed)
    @rule()
    def wait_after_close(self) -> None:
        with pytest.raises(ClosedError):
            self.double_buffer.wait(0.0)

    def failed(self) -> bool:
        """Whether the next batch to hand out is the earliest that failed."""
        if self.closed or not self.failures:
            return False
        return self.steps[self.drained] == min(self.failures)

    @precondition(lambda self: self.failed())
    @rule()
    def wait_for_what_failed(self) -> None:
        with pytest.raises(ValueError, match=f"in batch {min(self.failures)}$") as caught:
            self.double_buffer.wait(0.0)
        assert caught.value is self.failures[min(self.failures)][0]

    def full(self) -> bool:
        return not self.closed and (
            self.drained < len(self.steps)
            and self.finished[self.steps[self.drained]] == self.chunks
        )

    @precondition(lambda self: self.full())
    @rule()
    def take(self) -> None:
        assert self.double_buffer.wait(0.5) == self.steps[self.drained]
        self.double_buffer.drain()
        self.drained += 1

    def unfilled(self) -> bool:
        left = self.drained < len(self.steps)
        return left and not (self.closed or self.full() or self.failed())

    @precondition(lambda self: self.unfilled())
    @rule()
    def wait_in_vain(self) -> None:
        with pytest.raises(StallError):
            self.double_buffer.wait(0.0)

    @precondition(lambda self: len(self.claimed) == len(self.steps) * self.chunks)
    @rule()
    def claim_at_the_end(self) -> None:
        assert self.double_buffer.claim() is None

    @invariant()
    def chunks_are_claimed_once_and_in_order(self) -> None:
        expected = [(step, chunk) for step in self.steps for chunk in range(self.chunks)]
        assert self.claimed == expected[: len(self.claimed)]

    @invariant()
    def nobody_writes_a_zone_that_is_still_read(self) -> None:
        writing = {self.steps.index(step) for step, _ in self.held}
        assert all(self.drained <= turn < self.drained + ZONES for turn in writing)


Station.TestCase.settings = settings(max_examples=60, deadline=None)
TestStation = Station.TestCase


def test_a_stalled_worker_side_is_named_with_its_numbers() -> None:
    double_buffer = DoubleBuffer(range(3, 6), chunks=4)
    double_buffer.claim()
    with pytest.raises(StallError, match=r"workers stalled: batch 3 .* claimed 1 chunks .* disk"):
        double_buffer.wait(0.01, lambda: "the disk is slow")


def test_a_worker_waits_without_limit_for_its_consumer() -> None:
    double_buffer = DoubleBuffer(range(3), chunks=1)
    for _ in range(ZONES):
        claimed = double_buffer.claim()
        assert claimed is not None
        double_buffer.finish(claimed[0])
    got: list[object] = []
    thread = threading.Thread(target=lambda: got.append(double_buffer.claim()))
    thread.start()
    time.sleep(0.05)
    assert not got
    double_buffer.wait(1)
    double_buffer.drain()
    thread.join(5)
    assert got == [(2, 0)]


@pytest.mark.parametrize("side", ["worker", "consumer"])
def test_close_wakes_everyone(side: str) -> None:
    double_buffer = DoubleBuffer(range(5), chunks=1)
    ended: list[object] = []

    def wait() -> None:
        if side == "worker":
            ended.extend(iter(double_buffer.claim, None))
        try:
            double_buffer.wait(30)
        except ClosedError as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    double_buffer.close()
    thread.join(5)
    assert not thread.is_alive()
    assert isinstance(ended[-1], ClosedError)


def test_a_batch_that_is_full_before_the_one_ahead_of_it_comes_right_after_it() -> None:
    double_buffer = DoubleBuffer(range(3), chunks=1)
    assert [double_buffer.claim(), double_buffer.claim()] == [(0, 0), (1, 0)]
    double_buffer.finish(1)
    with pytest.raises(StallError):
        double_buffer.wait(0.0)
    double_buffer.finish(0)
    for step in (0, 1):
        assert double_buffer.wait(0.0) == step
        double_buffer.drain()


def test_batches_before_a_failed_one_are_still_handed_out() -> None:
    double_buffer = DoubleBuffer(range(4), chunks=1)
    assert double_buffer.claim() == (0, 0)
    assert double_buffer.claim() == (1, 0)
    double_buffer.fail(1, ValueError("second"))
    with pytest.raises(StallError):
        double_buffer.wait(0.0)  # the first may still come
    double_buffer.finish(0)
    assert double_buffer.wait(1) == 0
    double_buffer.drain()
    with pytest.raises(ValueError, match="second"):
        double_buffer.wait(1)
    assert double_buffer.claim() is None


def test_the_error_of_the_earliest_batch_is_raised() -> None:
    double_buffer = DoubleBuffer(range(4), chunks=1)
    double_buffer.claim()
    double_buffer.claim()
    double_buffer.fail(1, ValueError("later"))
    double_buffer.fail(0, ValueError("earlier"))
    with pytest.raises(ValueError, match="earlier"):
        double_buffer.wait(1)
