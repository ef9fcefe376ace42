"""Work of a device that is recorded once and then replayed, as a CUDA graph."""

from collections.abc import Callable, Hashable
from typing import Any


class Captured:
    """Runs work that is the same each time but for what its memory holds.

    Starting a kernel costs microseconds of the host; a graph starts all of them at
    once. The addresses of a batch are two for the whole run, so two graphs do. A graph
    repeats addresses and numbers as they were recorded: what changes from one time to
    the next must be in arrays that stay where they are, and nothing may come from the
    host or go there.

    The first time with a key, the work runs as it is, which compiles kernels and
    reserves the memory of its temporary arrays; the second time it is recorded, and
    from then on replayed. It always is work of the current stream. cupy records no call
    of cuBLAS.

    Args:
        cupy: The library.
    """

    def __init__(self, cupy: Any) -> None:
        self._cuda = cupy.cuda
        self._stream = cupy.cuda.Stream(non_blocking=True)  # the default one cannot record
        # Of its own, so that nobody else gets the memory that a graph writes to.
        self._pool = cupy.cuda.MemoryPool()
        self._graphs: dict[Hashable, Any] = {}

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        """Do `work`, whose arrays all are those of the last time with this `key`."""
        if key not in self._graphs:
            self._graphs[key] = None
            self._warm(work)
            return
        if self._graphs[key] is None:
            self._graphs[key] = self._record(work)
        self._graphs[key].launch()

    def _warm(self, work: Callable[[], None]) -> None:
        """Do the work on the stream that will record it, in the current one's turn."""
        current = self._cuda.get_current_stream()
        self._stream.wait_event(current.record())
        with self._cuda.using_allocator(self._pool.malloc), self._stream:
            work()
        current.wait_event(self._stream.record())

    def _record(self, work: Callable[[], None]) -> Any:
        with self._cuda.using_allocator(self._pool.malloc), self._stream:
            # Only of this thread: others go on to copy and to wait meanwhile.
            self._stream.begin_capture(self._cuda.runtime.streamCaptureModeThreadLocal)
            try:
                work()
            finally:
                graph = self._stream.end_capture()
        return graph
