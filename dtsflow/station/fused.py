"""The native engine: a chunk of samples in one call of the compiled core."""

import time
from types import ModuleType

import numpy as np
import numpy.typing as npt

from dtsflow.decode.decoder import Decoder
from dtsflow.errors import DecodeError
from dtsflow.native.steps import Status
from dtsflow.po.fused import Chosen, FusedProgram, Rows, Stored
from dtsflow.po.program import Program
from dtsflow.po.shrink import choose_scales, shrink
from dtsflow.reader.samples import Samples
from dtsflow.seed.address import pass_words
from dtsflow.spec import IMAGES, ImageSpec
from dtsflow.station.engine import Address, Bad, Places, StageTimes, fill_others, too_big
from dtsflow.station.zone import Zone

Numbers = npt.NDArray[np.int32]


class NativeEngine:
    """Fills rows by the compiled core; satisfies Engine.

    One call fills a chunk, draws and all, where the core can draw for the whole chain.
    Otherwise one call probes, Python draws, and another call does the rest.

    What the core does not decode (no JPEG, CMYK, an orientation to apply) goes through
    the reference decoder and comes back as pixels, sample by sample.

    Args:
        core: The compiled module.
        decoder: The reference decoder.
        program: Draws parameters.
        fused: The chain in the core.
        pixels: The one image of a pixel set; None where samples are encoded.
        turns: Whether EXIF orientations are applied.
        shrinks: Whether JPEGs are decoded at a part of their size where that will do.
    """

    def __init__(  # noqa: PLR0913  # a worker's parts, joined in one place only
        self,
        core: ModuleType,
        decoder: Decoder,
        program: Program,
        fused: FusedProgram,
        pixels: ImageSpec | None,
        *,
        turns: bool,
        shrinks: bool = False,
    ) -> None:
        self._core = core
        self._decoder = decoder
        self._program = program
        self._varying = program.varying
        self._fused = fused
        self._pixels = pixels
        self._turns = turns
        self._shrinks = shrinks
        self._recipe = fused.recipe(pixels, turns=turns, shrinks=shrinks)
        self.times = StageTimes()

    def fill(self, samples: Samples, address: Address, zone: Zone, places: Places) -> Bad:
        """Write the rows of all samples but the bad ones, which it gives."""
        if self._recipe is None:
            return self._fill_by_parts(samples, address, zone, places)
        began = time.perf_counter()
        status = np.empty(len(samples), np.int32)
        others = self._core.fill_chunk(
            self._recipe,
            samples.memory,
            samples.offsets,
            samples.sizes,
            samples.draw_ids,
            pass_words(address.seed, address.epoch, address.phase, 0),
            zone.slots,
            zone.data_offset,
            places,
            status,
        )
        self.times.native += time.perf_counter() - began
        if not others:
            return {}
        return self._fill_rest(status, samples, address, zone, places)

    def _fill_rest(  # what `fill` takes, and how far it came
        self,
        status: Numbers,
        samples: Samples,
        address: Address,
        zone: Zone,
        places: Places,
    ) -> Bad:
        """Fill the rows of the samples that `fill_chunk` left; gives all bad ones."""
        is_left = status == Status.NOT_OURS
        bad = {
            int(number): self.refusal(samples, int(number), int(status[number]))
            for number in np.flatnonzero((status != Status.OK) & ~is_left)
        }
        left = np.flatnonzero(is_left)
        if len(left):
            found = self._fill_by_parts(samples.only(left), address, zone, places[left])
            bad |= {int(left[number]): error for number, error in found.items()}
        return bad

    def _fill_by_parts(self, samples: Samples, address: Address, zone: Zone, places: Places) -> Bad:
        """Fill as `fill` does, with the draws made in Python."""
        began = time.perf_counter()
        shapes, handed, bad = self.examine(samples)
        if bad:
            return fill_others(self, samples, address, zone, places, bad)
        params, sizes = self._program.draw_with_sizes(
            seed=address.seed,
            ids=samples.draw_ids,
            epoch=address.epoch,
            phase=address.phase,
            sizes=shapes.astype(np.int64),
        )
        bad = too_big([sizes[place] for place in self._varying])
        if bad:
            return fill_others(self, samples, address, zone, places, bad)
        scales = np.ones(len(samples), np.int64)
        if self._shrinks:
            scales = np.where(self.jpegs(samples, handed), choose_scales(params[0], sizes[1]), 1)
            params[0] = shrink(params[0], scales)
        probed = time.perf_counter()
        bad = self._write(
            samples, handed, shapes, Chosen(params, sizes, scales), rows_of(zone, IMAGES, places)
        )
        self.times.po += probed - began
        self.times.native += time.perf_counter() - probed
        return bad

    def probe(self, samples: Samples) -> Bad:
        """The samples whose headers say that they are bad."""
        return self.examine(samples)[2]

    def jpegs(self, samples: Samples, handed: Places) -> npt.NDArray[np.bool_]:
        """Which samples can be decoded at a part of their size."""
        found = np.ones(len(samples), np.bool_)
        for number in handed:
            found[number] = self._decoder.scales(samples.data(int(number)))
        return found

    def _write(
        self, samples: Samples, handed: Places, shapes: Numbers, chosen: Chosen, rows: Rows
    ) -> Bad:
        """Decode and run the chain; the reference decoder has the samples `handed`."""
        stored = Stored(samples.memory, samples.offsets, samples.sizes, shapes)
        ours = np.arange(len(samples))
        if len(handed):
            ours = np.setdiff1d(ours, handed)
        bad: Bad = {}
        if len(ours):
            bad |= self._run(samples, ours, stored, chosen, rows, encoded=self._pixels is None)
        for number in handed:
            try:
                image = self._decoder.decode(samples.data(number), int(chosen.scales[number]))
            except DecodeError as error:
                bad[int(number)] = error
                continue
            bad |= self._run(samples, number[None], Stored.of(image), chosen, rows, encoded=False)
        return bad

    def _run(  # some samples of `fill`
        self,
        samples: Samples,
        numbers: Places,
        stored: Stored,
        chosen: Chosen,
        rows: Rows,
        *,
        encoded: bool,
    ) -> Bad:
        """Run the chain on the samples `numbers`, whose bytes `stored` holds."""
        if len(numbers) < len(samples):
            stored = stored[numbers] if len(stored.offsets) == len(samples) else stored
            rows = rows[numbers]
            chosen = chosen[numbers]
        status = self._fused.run(stored, chosen, rows, encoded=encoded)
        return {
            int(numbers[place]): self.refusal(samples, int(numbers[place]), int(status[place]))
            for place in np.flatnonzero(status)
        }

    def examine(self, samples: Samples) -> tuple[Numbers, Places, Bad]:
        """Height and width of each sample; which the core does not decode; bad ones."""
        count = len(samples)
        bad: Bad = {}
        if self._pixels is not None:
            shape = (self._pixels.height, self._pixels.width)
            return np.full((count, 2), shape, np.int32), np.empty(0, np.int64), bad
        facts = np.empty((count, 4), np.int32)
        self._core.probe(samples.memory, samples.offsets, samples.sizes, facts)
        theirs = facts[:, 3] != Status.OK
        if self._turns:
            theirs |= facts[:, 2] != 0
        shapes = np.ascontiguousarray(facts[:, :2])
        handed = np.flatnonzero(theirs)
        for number in handed:
            try:
                shapes[number] = self._decoder.probe(samples.data(int(number)))
            except DecodeError as error:
                bad[int(number)] = error
        return shapes, handed, bad

    def refusal(self, samples: Samples, number: int, status: int) -> DecodeError:
        """Why the core refused a sample, in the reference decoder's words if any.

        Raises:
            MemoryError: The sample may be good, but there was no memory to decode it.
        """
        if status == Status.NO_MEMORY:
            raise MemoryError(f"no memory to decode the image of sample_id {samples.ids[number]}")
        assert status == Status.DAMAGED
        try:
            self._decoder.decode(samples.data(number))
        except DecodeError as error:
            return error
        return DecodeError("libjpeg-turbo reported an error or a warning")


def rows_of(zone: Zone, name: str, places: Places) -> Rows:
    """The rows `places` of a field, for the core."""
    field = zone.field(name)
    row_bytes = field.stored.nbytes // len(field.stored)
    offsets = field.offset + places * row_bytes
    return Rows(zone.slots, offsets, field.stored, places, field.array.shape[-1])
