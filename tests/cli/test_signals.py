import signal
import threading
from queue import SimpleQueue

import pytest

from dtsflow.cli import run as module
from dtsflow.cli.run import Signals
from dtsflow.pipeline.checkpoint import StopRequest


def test_a_signal_stops_the_run_and_handlers_are_back_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asking: SimpleQueue[str] = SimpleQueue()
    stopping = StopRequest()
    monkeypatch.setattr(stopping, "ask", lambda: asking.put(threading.current_thread().name))
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with Signals(stopping) as signals:
        signal.raise_signal(signal.SIGTERM)
        assert stopping.asked
        assert asking.get(timeout=10) == "dtsflow-signals"
        assert signal.set_wakeup_fd(-1) >= 0
        signal.raise_signal(signal.SIGINT)  # at once: a launcher's copy of the same one
    assert signals.came is signal.SIGTERM
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert "dtsflow-signals" not in {thread.name for thread in threading.enumerate()}


def twice() -> None:
    with Signals(StopRequest()):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)


def test_a_second_interrupt_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TWICE_S", -1.0)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        twice()
    assert signal.getsignal(signal.SIGINT) is before


def test_what_the_process_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with Signals(StopRequest()) as signals:
            signal.raise_signal(signal.SIGTERM)
            assert signals.came is None
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_another_thread_leaves_the_handlers_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def inside() -> None:
        with Signals(StopRequest()):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join(10)
    assert seen == [before]
