"""The engine that makes rows of later epochs too, and copies those made before."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dtsflow.po.native import DrawnParams, Rows
from dtsflow.reader.store import Ints, Samples
from dtsflow.station.engine import (
    Address,
    Bad,
    Engine,
    Output,
    Places,
    ProbedSamples,
    View,
    draw_views,
    shrink_views,
)
from dtsflow.station.native_engine import rows_of
from dtsflow.station.row_cache import RowCache, RowLayout
from dtsflow.station.zone import Zone


class Sharing(Protocol):
    """Decodes each sample once for several outputs."""

    def examine(self, samples: Samples) -> tuple[ProbedSamples, Bad]:
        """Return what the headers of samples tell.

        Also return which samples are bad; then the rest is not used.
        """

    def jpegs(self, examined: ProbedSamples) -> npt.NDArray[np.bool_]:
        """Return which samples can be decoded at a part of their size."""

    def run(self, examined: ProbedSamples, outputs: Sequence[Output]) -> Bad:
        """Write all outputs, but the rows of the bad samples that it gives."""

    def copy(self, source: Rows, output: Output) -> None:
        """Make rows of images that were kept, all of one size."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptChain:
    """A chain as a whole, and in two parts.

    Attributes:
        whole: What decoded images go through in their own epoch.
        head: What they go through for another epoch, up to the image that is kept.
        tail: What makes a row of that image.
    """

    whole: View
    head: View
    tail: View


class CachingEngine:
    """Fills rows as `engine` does, and keeps those of later epochs; satisfies Engine.

    Only what `engine` makes alone counts: a sample that cannot be decoded for several
    epochs at once, or is bad, is its own, and nothing of it is kept.

    Args:
        engine: Fills rows of the epoch at hand.
        sharing: Decodes for several epochs.
        chains: All chains, by the field that each makes, the main one first.
        store: Where rows are kept.
        layout: How they lie there.
        shrinks: Whether JPEGs are decoded at a part of their size where that will do.
    """

    def __init__(  # a worker's parts, joined in one place only
        self,
        engine: Engine,
        sharing: Sharing,
        chains: Mapping[str, KeptChain],
        store: RowCache,
        layout: RowLayout,
        *,
        shrinks: bool = False,
    ) -> None:
        self._engine = engine
        self._sharing = sharing
        self._chains = dict(chains)
        self._store = store
        self._layout = layout
        self._shrinks = shrinks
        self.times = engine.times

    def fill(self, samples: Samples, address: Address, zone: Zone, places: Places) -> Bad:
        """Write the rows of all samples but the bad ones, which it gives."""
        numbers = samples.numbers
        if numbers is None or not self._store.reuse.ahead(address.epoch):
            return self._engine.fill(samples, address, zone, places)
        is_kept = numbers >= 0
        if not is_kept.any():
            return self._engine.fill(samples, address, zone, places)
        examined, bad = self._sharing.examine(samples)
        is_kept[list(bad)] = False
        chosen = np.flatnonzero(is_kept)
        if len(chosen):
            if len(chosen) < len(samples):
                examined = _only(examined, chosen)
            doubtful = self._fill_ahead(examined, address, zone, places[chosen])
            is_kept[chosen[doubtful]] = False
        rest = np.flatnonzero(~is_kept)
        if not len(rest):
            return {}
        found = self._engine.fill(samples.only(rest), address, zone, places[rest])
        return {int(rest[number]): error for number, error in found.items()}

    def probe(self, samples: Samples) -> Bad:
        """Return the samples whose headers say that they are bad."""
        return self._engine.probe(samples)

    def copy(
        self, numbers: Ints, draw_ids: Ints, address: Address, zone: Zone, places: Places
    ) -> None:
        """Write the rows of samples that the store holds, which have these numbers.

        Raises:
            MemoryError: There was no memory to do it.
        """
        kept = self._store.places(numbers)
        scales = np.ones(len(numbers), np.int64)
        for view, (name, chain) in enumerate(self._chains.items()):
            source = self._layout.rows(name, self._store, kept)
            sizes = np.full((len(numbers), 2), source.padded.shape[1:3], np.int64)
            began = time.perf_counter()
            params, traced = chain.tail.program.draw_with_sizes(
                seed=address.seed,
                ids=draw_ids,
                epoch=address.epoch,
                phase=address.phase,
                sizes=sizes,
                view=view,
            )
            self.times.po += time.perf_counter() - began
            chosen = DrawnParams(params, traced, scales)
            self._sharing.copy(source, Output(chain.tail, chosen, rows_of(zone, name, places)))

    def _fill_ahead(
        self, examined: ProbedSamples, address: Address, zone: Zone, places: Places
    ) -> list[int]:
        """Fill rows, and keep those of later epochs; which samples it could not."""
        began = time.perf_counter()
        samples = examined.samples
        numbers = samples.numbers
        assert numbers is not None
        epochs = self._store.reuse.ahead(address.epoch)
        outputs: list[Output] = []
        unfit: Bad = {}
        if address.epoch not in epochs:
            outputs, unfit = self._outputs(examined, address, zone, places)
        for epoch in epochs:
            kept = self._store.places(numbers, epoch)
            later, bad = self._outputs_ahead(examined, replace(address, epoch=epoch), kept)
            outputs, unfit = outputs + later, unfit | bad
        self.times.po += time.perf_counter() - began
        if unfit:
            good = np.delete(np.arange(len(samples)), list(unfit))
            if not len(good):
                return list(unfit)
            others = self._fill_ahead(_only(examined, good), address, zone, places[good])
            return [*unfit, *good[others].tolist()]
        bad = self._sharing.run(examined, outputs)
        good = np.delete(np.arange(len(samples)), list(bad))
        self._store.enter(numbers[good], samples.labels[good], epochs)
        if address.epoch in epochs and len(good):
            self.copy(numbers[good], samples.draw_ids[good], address, zone, places[good])
        return list(bad)

    def _outputs(
        self, examined: ProbedSamples, address: Address, zone: Zone, places: Places
    ) -> tuple[list[Output], Bad]:
        """Return the rows of the epoch at hand."""
        rows = {name: rows_of(zone, name, places) for name in self._chains}
        return self._drawn(examined, address, rows, [one.whole for one in self._chains.values()])

    def _outputs_ahead(
        self, examined: ProbedSamples, address: Address, kept: Ints
    ) -> tuple[list[Output], Bad]:
        """Return the rows of a later one, in places of the store."""
        rows = {name: self._layout.rows(name, self._store, kept) for name in self._chains}
        return self._drawn(examined, address, rows, [one.head for one in self._chains.values()])

    def _drawn(
        self,
        examined: ProbedSamples,
        address: Address,
        rows: Mapping[str, Rows],
        views: Sequence[View],
    ) -> tuple[list[Output], Bad]:
        sizes = examined.shapes.astype(np.int64)
        drawn, bad = draw_views([view.program for view in views], examined.samples, address, sizes)
        if bad:
            return [], bad
        if self._shrinks:
            drawn = shrink_views(drawn, self._sharing.jpegs(examined))
        whole = zip(views, drawn, rows.values(), strict=True)
        return [Output(*one) for one in whole], bad


def _only(examined: ProbedSamples, chosen: Ints) -> ProbedSamples:
    """Return the samples with these numbers alone, numbered anew."""
    handed = np.flatnonzero(np.isin(chosen, examined.handed))
    return ProbedSamples(examined.samples.only(chosen), examined.shapes[chosen], handed)
