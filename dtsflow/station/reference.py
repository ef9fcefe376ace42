"""The reference engine: one sample after another, with NumPy and the decoders."""

import time
from collections.abc import Mapping

import numpy as np

from dtsflow.decode.decoder import Decoder, Image
from dtsflow.errors import DecodeError
from dtsflow.po.program import Program
from dtsflow.reader.samples import Samples
from dtsflow.spec import IMAGES
from dtsflow.station.drawing import draw_views, shrink_views
from dtsflow.station.engine import Address, Bad, Places, StageTimes, fill_others
from dtsflow.station.zone import Zone


class ReferenceEngine:
    """Decodes each sample whole and runs the chains on it; satisfies Engine.

    Args:
        decoder: Decodes.
        program: The main chain.
        views: The others, by the field that each makes, in the order of their numbers.
        shrinks: Whether JPEGs are decoded at a part of their size where that will do.
    """

    def __init__(
        self,
        decoder: Decoder,
        program: Program,
        *,
        views: Mapping[str, Program] | None = None,
        shrinks: bool = False,
    ) -> None:
        self._decoder = decoder
        self._programs = {IMAGES: program, **(views or {})}
        self._shrinks = shrinks
        self.times = StageTimes()

    def fill(self, samples: Samples, address: Address, zone: Zone, places: Places) -> Bad:
        """Write the rows of all samples but the bad ones, which it gives."""
        began = time.perf_counter()
        sizes, bad = self._probe(samples)
        probed = time.perf_counter()
        self.times.decode += probed - began
        if bad:
            return fill_others(self, samples, address, zone, places, bad)
        drawn, bad = draw_views([*self._programs.values()], samples, address, sizes)
        if bad:
            return fill_others(self, samples, address, zone, places, bad)
        if self._shrinks:
            jpegs = [self._decoder.scales(samples.data(i)) for i in range(len(samples))]
            drawn = shrink_views(drawn, np.array(jpegs, np.bool_))
        self.times.po += time.perf_counter() - probed
        fields = [zone.field(name) for name in self._programs]
        for number, place in enumerate(places):
            try:
                image = self._decode(samples, number, int(drawn[0].scales[number]))
            except DecodeError as error:
                bad[number] = error
                continue
            began = time.perf_counter()
            for field, program, own in zip(fields, self._programs.values(), drawn, strict=True):
                program.run(image, field.array[place], own.params, number, own.sizes)
                field.stored[place, ..., field.array.shape[-1] :] = 0
            self.times.po += time.perf_counter() - began
        return bad

    def probe(self, samples: Samples) -> Bad:
        """The samples whose headers say that they are bad."""
        return self._probe(samples)[1]

    def _decode(self, samples: Samples, number: int, scale: int) -> Image:
        began = time.perf_counter()
        image = self._decoder.decode(samples.data(number), scale)
        self.times.decode += time.perf_counter() - began
        return image

    def _probe(self, samples: Samples) -> tuple[Places, Bad]:
        """Height and width of each sample; and the bad ones."""
        sizes = np.ones((len(samples), 2), np.int64)
        bad: Bad = {}
        for number in range(len(samples)):
            try:
                sizes[number] = self._decoder.probe(samples.data(number))
            except DecodeError as error:
                bad[number] = error
        return sizes, bad
