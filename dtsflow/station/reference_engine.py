"""The reference engine: one sample after another, with NumPy and the decoders."""

import time
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from dtsflow.decode.decoder import Decoder, Image
from dtsflow.errors import DecodeError
from dtsflow.po.native import Rows
from dtsflow.po.program import Program
from dtsflow.reader.store import Samples
from dtsflow.spec import IMAGES
from dtsflow.station.engine import (
    Address,
    Bad,
    Output,
    Places,
    ProbedSamples,
    StageTimes,
    View,
    draw_views,
    fill_others,
    shrink_views,
)
from dtsflow.station.native_engine import rows_of
from dtsflow.station.zone import Zone


class ReferenceDecode:
    """Decodes each sample whole, and runs on it all the chains it is wanted for.

    Args:
        decoder: Decodes.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self.times = StageTimes()

    def examine(self, samples: Samples) -> tuple[ProbedSamples, Bad]:
        """Return what the headers of samples tell.

        Also return which samples are bad; then the rest is not used.
        """
        began = time.perf_counter()
        shapes = np.ones((len(samples), 2), np.int32)
        bad: Bad = {}
        for number in range(len(samples)):
            try:
                shapes[number] = self._decoder.probe(samples.data(number))
            except DecodeError as error:
                bad[number] = error
        self.times.decode += time.perf_counter() - began
        return ProbedSamples(samples, shapes, np.arange(len(samples))), bad

    def jpegs(self, examined: ProbedSamples) -> npt.NDArray[np.bool_]:
        """Return which samples can be decoded at a part of their size."""
        samples = examined.samples
        jpegs = [self._decoder.scales(samples.data(i)) for i in range(len(samples))]
        return np.array(jpegs, np.bool_)

    def run(self, examined: ProbedSamples, outputs: Sequence[Output]) -> Bad:
        """Write all outputs, but the rows of the bad samples that it gives."""
        bad: Bad = {}
        for number in range(len(examined.samples)):
            try:
                self._run_one(examined.samples, number, outputs)
            except DecodeError as error:
                bad[number] = error
        return bad

    def copy(self, source: Rows, output: Output) -> None:
        """Make rows of images that were kept, all of one size."""
        began = time.perf_counter()
        for number, place in enumerate(source.places):
            _write(source.padded[place], output, number)
        self.times.po += time.perf_counter() - began

    def _run_one(self, samples: Samples, number: int, outputs: Sequence[Output]) -> None:
        images: dict[int, Image] = {}  # by the part of its size that it is decoded at
        for output in outputs:
            scale = int(output.chosen.scales[number])
            if scale not in images:
                images[scale] = self._decode(samples, number, scale)
            began = time.perf_counter()
            _write(images[scale], output, number)
            self.times.po += time.perf_counter() - began

    def _decode(self, samples: Samples, number: int, scale: int) -> Image:
        began = time.perf_counter()
        image = self._decoder.decode(samples.data(number), scale)
        self.times.decode += time.perf_counter() - began
        return image


class ReferenceEngine:
    """Decodes each sample whole and runs the chains on it; satisfies Engine.

    Args:
        decode: Decodes, and runs them.
        program: The main chain.
        views: The others, by the field that each makes, in the order of their numbers.
        shrinks: Whether JPEGs are decoded at a part of their size where that will do.
    """

    def __init__(
        self,
        decode: ReferenceDecode,
        program: Program,
        *,
        views: Mapping[str, Program] | None = None,
        shrinks: bool = False,
    ) -> None:
        self._shared = decode
        self._programs = {IMAGES: program, **(views or {})}
        self._shrinks = shrinks
        self.times = decode.times

    def fill(self, samples: Samples, address: Address, zone: Zone, places: Places) -> Bad:
        """Write the rows of all samples but the bad ones, which it gives."""
        examined, bad = self._shared.examine(samples)
        if bad:
            return fill_others(self, samples, address, zone, places, bad)
        began = time.perf_counter()
        sizes = examined.shapes.astype(np.int64)
        drawn, bad = draw_views([*self._programs.values()], samples, address, sizes)
        if bad:
            return fill_others(self, samples, address, zone, places, bad)
        if self._shrinks:
            drawn = shrink_views(drawn, self._shared.jpegs(examined))
        self.times.po += time.perf_counter() - began
        outputs = [
            Output(View(program, None, cuts=False), own, rows_of(zone, name, places))
            for (name, program), own in zip(self._programs.items(), drawn, strict=True)
        ]
        return self._shared.run(examined, outputs)

    def probe(self, samples: Samples) -> Bad:
        """Return the samples whose headers say that they are bad."""
        return self._shared.examine(samples)[1]


def _write(image: Image, output: Output, number: int) -> None:
    """Run a chain on one sample, into its row."""
    rows, chosen = output.rows, output.chosen
    whole = rows.padded[rows.places[number]]
    out = whole[..., : rows.channels]
    output.view.program.run(image, out, chosen.params, number, chosen.sizes)
    whole[..., rows.channels :] = 0
