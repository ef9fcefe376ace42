"""The reference engine: one sample after another, with NumPy and the decoders."""

import time

import numpy as np

from dtsflow.decode.decoder import Decoder
from dtsflow.errors import DecodeError
from dtsflow.po.operation import Params
from dtsflow.po.program import Program
from dtsflow.reader.samples import Samples
from dtsflow.station.engine import Address, Places, StageTimes, Where, located
from dtsflow.station.zone import Zone


class ReferenceEngine:
    """Decodes each sample whole and runs the chain on it; satisfies Engine."""

    def __init__(self, decoder: Decoder, program: Program, where: Where) -> None:
        self._decoder = decoder
        self._program = program
        self._where = where
        self.times = StageTimes()

    def fill(self, samples: Samples, address: Address, zone: Zone, places: Places) -> None:
        """Write the rows.

        Raises:
            DecodeError: A sample is damaged.
        """
        began = time.perf_counter()
        sizes = np.array([self._probe(samples, i) for i in range(len(samples))], np.int64)
        probed = time.perf_counter()
        params = self._program.draw(
            seed=address.seed,
            ids=samples.ids,
            epoch=address.epoch,
            phase=address.phase,
            sizes=sizes,
        )
        self.times.decode += probed - began
        self.times.po += time.perf_counter() - probed
        for number, place in enumerate(places):
            self._write(samples, number, params, zone, int(place))

    def _write(
        self, samples: Samples, number: int, params: list[Params], zone: Zone, place: int
    ) -> None:
        began = time.perf_counter()
        try:
            image = self._decoder.decode(samples.data(number))
        except DecodeError as error:
            raise located(error, samples, number, self._where) from error
        decoded = time.perf_counter()
        self._program.run(image, zone.images[place], params, number)
        zone.padded[place, ..., zone.images.shape[-1] :] = 0
        self.times.decode += decoded - began
        self.times.po += time.perf_counter() - decoded

    def _probe(self, samples: Samples, number: int) -> tuple[int, int]:
        try:
            return self._decoder.probe(samples.data(number))
        except DecodeError as error:
            raise located(error, samples, number, self._where) from error
