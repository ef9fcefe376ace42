"""The reference engine: one sample after another, with NumPy and the decoders."""

import time

import numpy as np

from dtsflow.decode.decoder import Decoder, Image
from dtsflow.errors import DecodeError
from dtsflow.po.program import Program
from dtsflow.po.shrink import choose_scales, shrink
from dtsflow.reader.samples import Samples
from dtsflow.station.engine import Address, Bad, Places, StageTimes, fill_others, too_big
from dtsflow.station.zone import Zone


class ReferenceEngine:
    """Decodes each sample whole and runs the chain on it; satisfies Engine."""

    def __init__(self, decoder: Decoder, program: Program, *, shrinks: bool = False) -> None:
        self._decoder = decoder
        self._program = program
        self._varying = program.varying
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
        params, traced = self._program.draw_with_sizes(
            seed=address.seed,
            ids=samples.draw_ids,
            epoch=address.epoch,
            phase=address.phase,
            sizes=sizes,
        )
        bad = too_big([traced[place] for place in self._varying])
        if bad:
            return fill_others(self, samples, address, zone, places, bad)
        scales = np.ones(len(samples), np.int64)
        if self._shrinks:
            jpegs = [self._decoder.scales(samples.data(i)) for i in range(len(samples))]
            scales = np.where(jpegs, choose_scales(params[0], traced[1]), 1)
            params[0] = shrink(params[0], scales)
        self.times.po += time.perf_counter() - probed
        for number, place in enumerate(places):
            try:
                image = self._decode(samples, number, int(scales[number]))
            except DecodeError as error:
                bad[number] = error
                continue
            began = time.perf_counter()
            self._program.run(image, zone.images[place], params, number, traced)
            zone.padded[place, ..., zone.images.shape[-1] :] = 0
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
