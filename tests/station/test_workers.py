import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from dtsflow.errors import ClosedError, StallError
from dtsflow.station.double_buffer import DoubleBuffer
from dtsflow.station.workers import Fill, Workers

TraceFunction = Callable[[FrameType, str, Any], Any]


def drain_all(double_buffer: DoubleBuffer, steps: range) -> None:
    for step in steps:
        assert double_buffer.wait(10) == step
        double_buffer.drain()


@pytest.mark.parametrize("count", [1, 2, 8])
def test_every_chunk_is_filled_once_by_some_worker(count: int) -> None:
    filled: Counter[tuple[int, int]] = Counter()
    workers = Workers(count)
    for first in (0, 100):
        steps = range(first, first + 20)
        double_buffer = DoubleBuffer(steps, chunks=3)
        workers.begin(
            double_buffer, lambda _number: lambda step, chunk: filled.update([(step, chunk)])
        )
        drain_all(double_buffer, steps)
        double_buffer.close()
    workers.close()
    assert filled == {(s, c): 1 for f in (0, 100) for s in range(f, f + 20) for c in range(3)}


def test_each_worker_has_its_own_filler() -> None:
    made: list[int] = []
    barrier = threading.Barrier(3, timeout=10)
    workers = Workers(3)
    double_buffer = DoubleBuffer(range(2), chunks=3)

    def fill_of(number: int) -> object:
        made.append(number)
        return lambda _step, _chunk: barrier.wait()

    workers.begin(double_buffer, fill_of)  # type: ignore[arg-type]  # a lambda has no parameter names
    drain_all(double_buffer, range(2))
    double_buffer.close()
    workers.close()
    assert sorted(made) == [0, 1, 2]


def test_an_exception_in_a_worker_reaches_the_consumer_with_its_traceback() -> None:
    def explode(step: int, chunk: int) -> None:
        raise ZeroDivisionError(f"at {step} {chunk}")

    workers = Workers(2)
    double_buffer = DoubleBuffer(range(3), chunks=1)
    workers.begin(double_buffer, lambda _number: explode)
    with pytest.raises(ZeroDivisionError, match="at 0 0") as caught:
        double_buffer.wait(10)
    assert any(entry.name == "explode" for entry in caught.traceback)
    workers.close()


def test_a_pass_waits_for_the_one_before_and_names_who_does_not_leave_it() -> None:
    entered, gate = threading.Event(), threading.Event()
    workers = Workers(2)
    first, second = DoubleBuffer(range(1), chunks=1), DoubleBuffer(range(1), chunks=1)

    def stuck(step: int, chunk: int) -> None:  # noqa: ARG001  # the signature of a filler
        entered.set()
        gate.wait(20)

    workers.begin(first, lambda _number: stuck)
    entered.wait(10)
    first.close()
    with pytest.raises(StallError, match="1 of 2 are still in the pass before"):
        workers.begin(second, lambda _number: lambda _step, _chunk: None, timeout_s=0.1)
    gate.set()
    workers.begin(second, lambda _number: lambda _step, _chunk: None)
    assert second.wait(10) == 0
    second.close()
    workers.close()


def test_threads_are_gone_after_close() -> None:
    before = threading.active_count()
    workers = Workers(5)
    assert threading.active_count() == before + 5
    workers.close()
    assert threading.active_count() == before


def test_an_exception_while_a_filler_is_made_reaches_the_consumer() -> None:
    def make(number: int) -> Fill:
        raise ZeroDivisionError(f"no filler for worker {number}")

    workers = Workers(3)
    double_buffer = DoubleBuffer(range(7, 9), chunks=1)
    workers.begin(double_buffer, make)
    with pytest.raises(ZeroDivisionError, match="no filler for worker") as caught:
        double_buffer.wait(10)
    assert any(entry.name == "make" for entry in caught.traceback)
    double_buffer.close()
    after = DoubleBuffer(range(1), chunks=1)
    workers.begin(after, lambda _number: lambda _step, _chunk: None)
    assert after.wait(10) == 0
    after.close()
    workers.close()


@pytest.mark.parametrize("failing", [1, 3, 5])
def test_a_thread_that_does_not_start_leaves_none_behind(
    failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, started = threading.active_count(), []
    start = threading.Thread.start

    def start_or_fail(thread: threading.Thread) -> None:
        started.append(thread)
        if len(started) == failing:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_fail)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        Workers(5)
    assert len(started) == failing
    assert threading.active_count() == before


BEGIN = Workers.begin.__code__


@pytest.mark.parametrize("line", sorted({line for *_, line in BEGIN.co_lines() if line}))
def test_an_interrupt_anywhere_in_begin_leaves_workers_that_end(line: int) -> None:
    workers = Workers(2)
    double_buffer = DoubleBuffer(range(1), chunks=1)

    def interrupt(frame: FrameType, event: str, _argument: object) -> TraceFunction | None:
        if frame.f_code is not BEGIN:
            return None
        if event == "line" and frame.f_lineno == line:
            raise KeyboardInterrupt
        return interrupt

    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        with suppress(KeyboardInterrupt):
            workers.begin(double_buffer, lambda _number: lambda _step, _chunk: None)
    finally:
        sys.settrace(before)
    double_buffer.close()
    closing = threading.Thread(target=workers.close)
    closing.start()
    closing.join(5)
    assert not closing.is_alive()
    assert not any(thread.is_alive() for thread in workers._threads)


def test_closing_while_a_pass_waits_to_begin_ends_both() -> None:
    entered, gate = threading.Event(), threading.Event()
    workers = Workers(2)
    first, second = DoubleBuffer(range(1), chunks=1), DoubleBuffer(range(1), chunks=1)

    def stuck(step: int, chunk: int) -> None:  # noqa: ARG001  # the signature of a filler
        entered.set()
        gate.wait(20)

    def begin() -> None:
        with suppress(ClosedError):
            workers.begin(second, lambda _number: lambda _step, _chunk: None, timeout_s=20)

    workers.begin(first, lambda _number: stuck)
    assert entered.wait(10)
    first.close()
    both = [threading.Thread(target=begin), threading.Thread(target=workers.close)]
    for thread in both:
        thread.start()
    second.close()
    gate.set()
    for thread in both:
        thread.join(5)
        assert not thread.is_alive()
    assert not any(thread.is_alive() for thread in workers._threads)
    with pytest.raises(ClosedError, match="open the plan again"):
        workers.begin(DoubleBuffer(range(1), chunks=1), lambda _number: lambda _step, _chunk: None)
