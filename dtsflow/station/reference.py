"""The reference engine: one sample after another, with NumPy and the decoders."""

import time

import numpy as np

from dtsflow.decode.decoder import Decoder, Image
from dtsflow.errors import DecodeError
from dtsflow.po.program import Program
from dtsflow.po.shrink import choose_scales, shrink
from dtsflow.reader.samples import Samples
from dtsflow.station.engine import Address, Places, StageTimes, Where, check_sizes, located
from dtsflow.station.zone import Zone


class ReferenceEngine:
    """Decodes each sample whole and runs the chain on it; satisfies Engine."""

    def __init__(
        self, decoder: Decoder, program: Program, where: Where, *, shrinks: bool = False
    ) -> None:
        self._decoder = decoder
        self._program = program
        self._varying = program.varying
        self._where = where
        self._shrinks = shrinks
        self.times = StageTimes()

    def fill(self, samples: Samples, address: Address, zone: Zone, places: Places) -> None:
        """Write the rows.

        Raises:
            DecodeError: A sample is damaged.
        """
        began = time.perf_counter()
        sizes = np.array([self._probe(samples, i) for i in range(len(samples))], np.int64)
        probed = time.perf_counter()
        params, traced = self._program.draw_with_sizes(
            seed=address.seed,
            ids=samples.ids,
            epoch=address.epoch,
            phase=address.phase,
            sizes=sizes,
        )
        check_sizes(samples, [traced[place] for place in self._varying], self._where)
        scales = np.ones(len(samples), np.int64)
        if self._shrinks:
            jpegs = [self._decoder.scales(samples.data(i)) for i in range(len(samples))]
            scales = np.where(jpegs, choose_scales(params[0], traced[1]), 1)
            params[0] = shrink(params[0], scales)
        self.times.decode += probed - began
        self.times.po += time.perf_counter() - probed
        for number, place in enumerate(places):
            image = self._decode(samples, number, int(scales[number]))
            began = time.perf_counter()
            self._program.run(image, zone.images[place], params, number, traced)
            zone.padded[place, ..., zone.images.shape[-1] :] = 0
            self.times.po += time.perf_counter() - began

    def _decode(self, samples: Samples, number: int, scale: int) -> Image:
        began = time.perf_counter()
        try:
            image = self._decoder.decode(samples.data(number), scale)
        except DecodeError as error:
            raise located(error, samples, number, self._where) from error
        self.times.decode += time.perf_counter() - began
        return image

    def _probe(self, samples: Samples, number: int) -> tuple[int, int]:
        try:
            return self._decoder.probe(samples.data(number))
        except DecodeError as error:
            raise located(error, samples, number, self._where) from error
