"""The resources that a run holds: memory, threads and open files."""

import os
import threading
from functools import partial
from typing import Any

from dtsflow.arena.arena import Arena, Feed
from dtsflow.errors import ClosedError
from dtsflow.memory.align import aligned_bytes
from dtsflow.pipeline.checkpoint import State
from dtsflow.pipeline.phase_plan import PhasePlan, forms_of
from dtsflow.pipeline.plan import Plan
from dtsflow.pipeline.run_folder import RunFolder
from dtsflow.po.chain import ChainVersion
from dtsflow.ranks.group import Group
from dtsflow.reader.order import EpochOrder
from dtsflow.reader.rows import RowTable
from dtsflow.reader.store import Sparing, Store
from dtsflow.station.bad_samples import BadSample, RowWriter, Substitutes
from dtsflow.station.double_buffer import DoubleBuffer
from dtsflow.station.engine import Address, Engine, StageTimes
from dtsflow.station.filler import CachedPass, Filler
from dtsflow.station.row_cache import RowCount
from dtsflow.station.workers import Workers
from dtsflow.volume.datasets.mixed import MixedSet


class _PhaseResources:
    """The resources that one phase has for itself."""

    def __init__(self, plan: PhasePlan, store: Store, workers: int, kept: int) -> None:
        self.plan = plan
        self.store = store
        self.rows = plan.row_store(kept)
        self.engines: list[Engine] = []
        self.substitutes = Substitutes(plan.volumes, plan.selection)
        self._workers = workers
        self._chain_version: ChainVersion | None = None
        self._past = StageTimes()  # of engines that were replaced

    def prepare(self, epoch: int) -> None:
        """Have the engines of an epoch; none of them may be at work."""
        if (chain_version := self.plan.chain_version(epoch)) is not self._chain_version:
            self._past = self.times
            self.engines = [self.plan.engine(epoch, self.rows) for _ in range(self._workers)]
            self._chain_version = chain_version

    def begin(
        self, order: EpochOrder, steps: range, timeout_s: float, address: Address
    ) -> CachedPass | None:
        """Begin to read a pass, but for what no row needs; what it reuses, if any."""
        rows, store = self.rows, self.store
        if rows is None:
            store.begin(order, steps, timeout_s)
            return None
        rows.begin(address.epoch, self.plan.chain_version(address.epoch).first)
        # An empty lane that wraps takes samples that are not the rank's own.
        complete = rows.is_complete and self.plan.order.samples >= self.plan.order.lanes
        pages = iter(()) if complete else self.plan.pages(order, steps)
        missing = map(rows.missing, pages)
        reads_all = rows.is_empty
        if not reads_all and isinstance(store, Sparing):
            store.begin_only(order, steps, missing, timeout_s)
        elif reads_all or any(map(len, missing)):
            reads_all = True
            store.begin(order, steps, timeout_s)
        return CachedPass(rows, address, self.plan.volumes, reads_all)

    @property
    def times(self) -> StageTimes:
        """Seconds spent in each stage so far, summed over the workers."""
        return StageTimes.sum_of([self._past, *(engine.times for engine in self.engines)])


class Resources:
    """Everything that a run must let go of.

    It never refers to the run, so that an abandoned run can be collected and its
    finalizer can close this.
    """

    def __init__(self, plan: Plan, folder: RunFolder | None, start: State, group: Group) -> None:
        station = plan.pipeline.station
        self.folder, self.group = folder, group
        self._timeout_s, self._poison = station.timeout_s, station.poison
        self.workers = Workers(plan.workers)
        self.phases: dict[str, _PhaseResources] = {}
        self._arena: Arena | None = None
        try:
            forms, local_rank = forms_of(plan.phases), plan.rank.local_index
            self._arena = plan.pipeline.arena.open(plan.memory, forms, local_rank=local_rank)
            self._open_phases(plan, start)
        except BaseException:
            self._close_parts(wait=True)
            raise
        self._bad_samples: RowWriter | None = None
        self._double_buffer: DoubleBuffer | None = None
        self._feed: Feed | None = None
        self._store: Store | None = None
        self._closed = False
        self._process = os.getpid()

    def _open_phases(self, plan: Plan, start: State) -> None:
        """Open all phases, first the one that is read first."""
        windows = aligned_bytes(plan.windows_bytes) if plan.windows_bytes else None
        for name in sorted(plan.phases, key=lambda name: name != start.phase):
            step = start.step if name == start.phase else 0
            mode, _ = plan.reading[name]
            at = (start.epoch, step)
            store = plan.phases[name].open_store(mode, at, windows, self.group)
            try:
                kept = plan.kept_samples.get(name, 0)
                resources = _PhaseResources(plan.phases[name], store, plan.workers, kept)
                resources.prepare(start.epoch)
                self.phases[name] = resources
            except BaseException:
                store.close()
                raise

    def begin(
        self, phase: str, epoch: int, double_buffer: DoubleBuffer, stream: Any = None
    ) -> Feed:
        """Let the workers fill the batches of a new pass; an earlier pass ends."""
        arena = self._arena  # close() may come at any line that follows; the workers tell
        if self._closed or arena is None:
            raise ClosedError("The run is closed: open the plan again to read more batches.")
        if os.getpid() != self._process:
            raise ClosedError(
                f"The run was opened in process {self._process}, and a fork has none of its "
                f"threads: open the plan in process {os.getpid()} itself."
            )
        if self._double_buffer is not None:
            self.end(self._double_buffer)
        # The pass before may still be reading the memory that the next one loads into.
        self.workers.settle(self._timeout_s)
        own = self.phases[phase]
        plan, store = own.plan, own.store
        own.prepare(epoch)
        form = plan.form_name(plan.chain_version(epoch))
        self._double_buffer, self._store = double_buffer, store
        self._feed = feed = arena.feed(
            form,
            double_buffer,
            timeout_s=self._timeout_s,
            progress=store.progress,
            poison=self._poison,
            stream=stream,
        )
        order = plan.order.epoch(epoch)
        address = Address(plan.order.seed, epoch, plan.order.phase)
        reusing = own.begin(order, double_buffer.steps, self._timeout_s, address)
        table = RowTable(order, plan.lanes, plan.rows, plan.selection)
        bad = RowWriter(
            plan.phase.decode.on_error,
            plan.volumes,
            own.substitutes,
            address,
            stop=lambda: double_buffer.is_closed,
        )
        self._bad_samples = bad
        zones, batch = arena.zones[form], plan.batch_operations(epoch)
        by_source = isinstance(plan.volumes, MixedSet)
        parts = (store, table, zones, plan.chunk_rows, bad)
        make = partial(Filler, *parts, batch=batch, by_source=by_source, reusing=reusing)
        fill_of = partial(_filler, make, own.engines)
        self.workers.begin(double_buffer, fill_of, timeout_s=self._timeout_s)
        return feed

    def bad_samples(self, double_buffer: DoubleBuffer, step: int) -> list[BadSample]:
        """Return the bad samples of a filled batch, by row.

        Each is given once.
        """
        if double_buffer is not self._double_buffer or self._bad_samples is None:
            return []
        return self._bad_samples.of_batch(step)

    def end(self, double_buffer: DoubleBuffer) -> None:
        """End a pass; workers leave it on their own, whatever they wait for."""
        double_buffer.close()
        if double_buffer is self._double_buffer:
            if self._store is not None:
                self._store.end()
            if self._feed is not None:
                self._feed.end()
            # They may hold an error whose frames hold the run.
            self._double_buffer = self._bad_samples = self._feed = self._store = None

    @property
    def times(self) -> StageTimes:
        """Seconds spent in each stage so far, summed over the workers."""
        return StageTimes.sum_of(own.times for own in self.phases.values())

    @property
    def retries(self) -> dict[str, int]:
        """By phase, how often a read was tried again so far."""
        return {name: own.store.retries for name, own in self.phases.items()}

    @property
    def row_counts(self) -> dict[str, RowCount]:
        """By phase that reuses rows, how many were decoded and reused so far."""
        return {name: own.rows.count for name, own in self.phases.items() if own.rows is not None}

    def close(self) -> None:
        """End all threads and the log; closing again does nothing."""
        self._closed = True
        if os.getpid() != self._process:
            return  # the threads are the parent's, and so are the locks they may hold
        if self._double_buffer is not None:
            self._double_buffer.close()
        # Collected inside one of its threads, which may hold a lock others want, it
        # must not wait for them; they end by themselves.
        threads = [thread for own in self.phases.values() for thread in own.store.threads]
        threads += [] if self._arena is None else self._arena.threads
        wait = threading.current_thread() not in {*threads, *self.workers.threads}
        self._close_parts(wait=wait)
        self.group.close()
        if self.folder is not None:
            self.folder.close()

    def _close_parts(self, *, wait: bool) -> None:
        for own in self.phases.values():
            own.store.close(wait=wait)
        self.workers.close(wait=wait)
        if self._arena is not None:
            self._arena.close(wait=wait)
            self._arena = None  # what is still handed out keeps the memory, nothing else


def _filler(make: "partial[Filler]", engines: list[Engine], worker: int) -> Filler:
    return make(engines[worker])
