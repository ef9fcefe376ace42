"""The worker threads of a run: started once, given one pass after another."""

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from dtsflow.errors import ClosedError, StallError
from dtsflow.station.double_buffer import DoubleBuffer


class Fill(Protocol):
    """Fills chunks; every worker has its own, so it may keep scratch."""

    def __call__(self, step: int, chunk: int) -> None:
        """Write chunk `chunk` of batch `step` into its zone."""


Pass = tuple[DoubleBuffer, Callable[[int], Fill]]


class Workers:
    """`count` threads that fill the chunks of one pass at a time.

    The threads refer to a shared state and never to this object, so that an abandoned
    run can be collected.
    """

    def __init__(self, count: int) -> None:
        self._shared = _Shared(count)
        self._threads: list[threading.Thread] = []
        try:
            for number in range(count):
                thread = threading.Thread(
                    target=_work,
                    args=(self._shared, number),
                    name=f"dtsflow-worker-{number}",
                    daemon=True,  # interpreter exit closes the run first, then nobody waits
                )
                thread.start()
                self._threads.append(thread)
        except BaseException:
            self.close()
            raise

    def settle(self, timeout_s: float) -> None:
        """Wait until no worker touches the pass before, which must be closed.

        Raises:
            StallError: One of them still does after `timeout_s` seconds.
        """
        with self._shared.changed:
            if not self._shared.changed.wait_for(self._shared.can_begin, timeout_s):
                raise StallError(
                    f"The workers stalled: {self._shared.count - self._shared.idle} of "
                    f"{self._shared.count} are still in the pass before after {timeout_s:g} s."
                )

    def begin(
        self,
        double_buffer: DoubleBuffer,
        fill_of: Callable[[int], Fill],
        *,
        timeout_s: float = 300.0,
    ) -> None:
        """Let all workers fill chunks of `double_buffer`, worker n with `fill_of(n)`.

        Waits until none of them touches the pass before, which must be closed.

        Raises:
            StallError: One of them still does after `timeout_s` seconds.
            ClosedError: The workers were ended.
        """
        self.settle(timeout_s)
        with self._shared.changed:
            if self._shared.closed:
                raise ClosedError("The run is closed: open the plan again to read more batches.")
            self._shared.idle = 0
            self._shared.begun += 1
            self._shared.current = (double_buffer, fill_of)
            self._shared.changed.notify_all()

    @property
    def threads(self) -> Sequence[threading.Thread]:
        """Return the threads."""
        return self._threads

    def close(self, *, wait: bool = True) -> None:
        """Let the threads end, and wait until they have; close the pass before."""
        with self._shared.changed:
            self._shared.closed = True
            self._shared.changed.notify_all()
        for thread in self._threads if wait else ():
            thread.join()


class _Shared:
    def __init__(self, count: int) -> None:
        self.count = count
        self.idle = count
        self.begun = 0
        self.current: Pass | None = None
        self.closed = False
        self.changed = threading.Condition()

    def next_pass(self, seen: int) -> Pass | None:
        """Wait for pass number `seen` + 1; None when the workers are to end."""
        with self.changed:
            while self.begun == seen and not self.closed:
                self.changed.wait()
            return self.current if self.begun > seen else None

    def done(self) -> None:
        with self.changed:
            self.idle += 1
            if self.is_idle():
                self.current = None  # it refers to the pass, which may be collected now
            self.changed.notify_all()

    def is_idle(self) -> bool:
        return self.idle == self.count

    def can_begin(self) -> bool:
        return self.closed or self.is_idle()


def _work(shared: _Shared, number: int) -> None:
    """Run one worker thread."""
    seen = 0
    while (current := shared.next_pass(seen)) is not None:
        seen += 1
        try:
            _serve(*current, number)
        finally:
            del current  # a waiting worker must not keep the last pass alive
            shared.done()


def _serve(double_buffer: DoubleBuffer, fill_of: Callable[[int], Fill], number: int) -> None:
    try:
        fill = fill_of(number)
    except BaseException as error:  # noqa: BLE001  # the consumer raises it, with traceback
        double_buffer.fail(double_buffer.first_step, error)
        return
    while (claimed := double_buffer.claim()) is not None:
        try:
            fill(*claimed)
        except BaseException as error:  # noqa: BLE001  # the consumer raises it, with traceback
            double_buffer.fail(claimed[0], error)
        else:
            double_buffer.finish(claimed[0])
