"""The native engine of several chains: each sample is decoded once, for all of them."""

import time
from collections.abc import Mapping

import numpy as np

from dtsflow.reader.samples import Samples
from dtsflow.station.drawing import draw_views, shrink_views
from dtsflow.station.engine import Address, Bad, Places, fill_others
from dtsflow.station.fused import NativeEngine, rows_of
from dtsflow.station.output import Output, View
from dtsflow.station.shared_decode import SharedDecode
from dtsflow.station.zone import Zone


class NativeViewsEngine:
    """Fills several fields by the compiled core; satisfies Engine.

    Args:
        main: The engine of the main chain alone, which knows what samples are.
        views: All chains, by the field that each makes, the main one first.
        shared: Decodes.
        shrinks: Whether JPEGs are decoded at a part of their size where that will do.
    """

    def __init__(
        self,
        main: NativeEngine,
        views: Mapping[str, View],
        shared: SharedDecode,
        *,
        shrinks: bool = False,
    ) -> None:
        self._main = main
        self._views = dict(views)
        self._shared = shared
        self._shrinks = shrinks
        self.times = shared.times

    def fill(self, samples: Samples, address: Address, zone: Zone, places: Places) -> Bad:
        """Write the rows of all samples but the bad ones, which it gives."""
        began = time.perf_counter()
        examined, bad = self._shared.examine(samples)
        if bad:
            return fill_others(self, samples, address, zone, places, bad)
        programs = [view.program for view in self._views.values()]
        drawn, bad = draw_views(programs, samples, address, examined.shapes.astype(np.int64))
        if bad:
            return fill_others(self, samples, address, zone, places, bad)
        if self._shrinks:
            drawn = shrink_views(drawn, self._shared.jpegs(examined))
        self.times.po += time.perf_counter() - began
        outputs = [
            Output(view, chosen, rows_of(zone, name, places))
            for (name, view), chosen in zip(self._views.items(), drawn, strict=True)
        ]
        return self._shared.run(examined, outputs)

    def probe(self, samples: Samples) -> Bad:
        """The samples whose headers say that they are bad."""
        return self._main.probe(samples)
