"""The native engine: a chunk of samples in one call of the compiled core.

With several chains each sample is decoded once, for all of them.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Final

import numpy as np
import numpy.typing as npt

from dtsflow.decode.decoder import Decoder
from dtsflow.errors import DecodeError
from dtsflow.native.core import AS_STORED, CASTS, STEP_NUMBERS, Status, StepKind
from dtsflow.po.geometry import WINDOW, windows
from dtsflow.po.native import DrawnParams, EncodedSamples, FusedProgram, Rows
from dtsflow.po.program import Program
from dtsflow.po.resize import choose_scales, shrink
from dtsflow.reader.store import Samples
from dtsflow.seed.address import pass_words
from dtsflow.spec import IMAGES, ImageSpec
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
    too_big,
)
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
        apply_orientation: Whether EXIF orientations are applied.
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
        apply_orientation: bool,
        shrinks: bool = False,
    ) -> None:
        self._core = core
        self._decoder = decoder
        self._program = program
        self._varying = program.varying
        self._fused = fused
        self._pixels = pixels
        self._turns = apply_orientation
        self._shrinks = shrinks
        self._recipe = fused.recipe(pixels, apply_orientation=apply_orientation, shrinks=shrinks)
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
            samples,
            handed,
            shapes,
            DrawnParams(params, sizes, scales),
            rows_of(zone, IMAGES, places),
        )
        self.times.po += probed - began
        self.times.native += time.perf_counter() - probed
        return bad

    def probe(self, samples: Samples) -> Bad:
        """Return the samples whose headers say that they are bad."""
        return self.examine(samples)[2]

    def jpegs(self, samples: Samples, handed: Places) -> npt.NDArray[np.bool_]:
        """Return which samples can be decoded at a part of their size."""
        found = np.ones(len(samples), np.bool_)
        for number in handed:
            found[number] = self._decoder.scales(samples.data(int(number)))
        return found

    def _write(
        self, samples: Samples, handed: Places, shapes: Numbers, chosen: DrawnParams, rows: Rows
    ) -> Bad:
        """Decode and run the chain; the reference decoder has the samples `handed`."""
        stored = EncodedSamples(samples.memory, samples.offsets, samples.sizes, shapes)
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
            bad |= self._run(
                samples, number[None], EncodedSamples.of(image), chosen, rows, encoded=False
            )
        return bad

    def _run(  # some samples of `fill`
        self,
        samples: Samples,
        numbers: Places,
        stored: EncodedSamples,
        chosen: DrawnParams,
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
        """Return why the core refused a sample, in the reference's words if any.

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
    """Return the rows `places` of a field, for the core."""
    field = zone.field(name)
    row_bytes = field.stored.nbytes // len(field.stored)
    offsets = field.offset + places * row_bytes
    return Rows(zone.slots, offsets, field.stored, places, field.array.shape[-1])


SCRATCH_BYTES: Final = 8 << 20
"""Decoded pixels that one worker holds, unless a single image is larger."""

_ALIGN: Final = 64  # bytes: where each decoded image begins
_CHANNELS: Final = 3  # of every image that is encoded


class SharedDecode:
    """Decodes samples, and runs on each all the chains it is wanted for.

    Of an image no more is decoded than the chains look at; at several parts of its size
    it is decoded once for each.

    Args:
        core: The compiled module.
        decoder: The reference decoder.
        main: The engine of the main chain alone, which knows what samples are.
        encoded: Whether samples are encoded; else they are pixels.
    """

    def __init__(
        self, core: ModuleType, decoder: Decoder, main: NativeEngine, *, encoded: bool
    ) -> None:
        self._core = core
        self._decoder = decoder
        self._main = main
        self._encoded = encoded
        self.times = main.times
        self._scratch = np.empty(0, np.uint8)
        self._decode = core.Program(
            [int(StepKind.CROP)],
            True,  # noqa: FBT003  # the core takes no names: encoded
            _CHANNELS,
            _CHANNELS,
            CASTS[AS_STORED.dtype],
            AS_STORED.scale,
            AS_STORED.offset,
            AS_STORED.table,
            None,
        )

    def examine(self, samples: Samples) -> tuple[ProbedSamples, Bad]:
        """Return what the headers of samples tell.

        Also return which samples are bad; then the rest is not used.
        """
        shapes, handed, bad = self._main.examine(samples)
        return ProbedSamples(samples, shapes, handed), bad

    def jpegs(self, examined: ProbedSamples) -> npt.NDArray[np.bool_]:
        """Return which samples can be decoded at a part of their size."""
        return self._main.jpegs(examined.samples, examined.handed)

    def run(self, examined: ProbedSamples, outputs: Sequence[Output]) -> Bad:
        """Write all outputs, but the rows of the bad samples that it gives."""
        began = time.perf_counter()
        bad = self._run(examined, outputs)
        self.times.native += time.perf_counter() - began
        return bad

    def _run(self, examined: ProbedSamples, outputs: Sequence[Output]) -> Bad:
        samples, handed = examined.samples, examined.handed
        ours = np.setdiff1d(np.arange(len(samples)), handed)
        if not self._encoded:
            stored = EncodedSamples(samples.memory, samples.offsets, samples.sizes, examined.shapes)
            return self._write(samples, ours, stored, outputs)
        bad: Bad = {}
        for scale in np.unique([output.chosen.scales for output in outputs]).tolist():
            bad |= self._run_at(examined, ours, outputs, scale)
        for number in handed:
            bad |= self._run_handed(samples, number[None], outputs)
        return bad

    def copy(self, source: Rows, output: Output) -> None:
        """Make rows of images that were kept, all of one size.

        Raises:
            MemoryError: There was no memory to do it.
        """
        began = time.perf_counter()
        count, shape = len(source.places), source.padded.shape[1:]
        sizes = np.full(count, np.prod(shape), np.int64)
        shapes = np.full((count, 2), shape[:2], np.int32)
        stored = EncodedSamples(source.memory, source.offsets, sizes, shapes)
        assert output.view.fused is not None
        status = output.view.fused.run(stored, output.chosen, output.rows, encoded=False)
        self.times.native += time.perf_counter() - began
        if (status == Status.NO_MEMORY).any():
            raise MemoryError("no memory to make rows of kept images")
        assert not status.any()

    def _run_at(
        self, examined: ProbedSamples, ours: Places, outputs: Sequence[Output], scale: int
    ) -> Bad:
        """Decode at one part in `scale` whatever is wanted there."""
        wanted = np.array([output.chosen.scales == scale for output in outputs])
        own = ours[wanted[:, ours].any(axis=0)]
        needed = _windows(examined, outputs, wanted, scale)
        bad: Bad = {}
        for numbers in _portions(own, needed):
            stored, status = self._decoded(examined, numbers, needed[numbers], scale)
            bad |= self._refused(examined.samples, numbers, status)
            good = np.flatnonzero(status == 0)
            for output, is_wanted in zip(outputs, wanted, strict=True):
                some = good[is_wanted[numbers[good]]]
                moved = _moved(output, numbers[some], needed)
                bad |= self._make(examined.samples, numbers[some], stored[some], moved)
        return bad

    def _run_handed(self, samples: Samples, number: Places, outputs: Sequence[Output]) -> Bad:
        """Let the reference decoder have one sample."""
        scales = [int(output.chosen.scales[number[0]]) for output in outputs]
        bad: Bad = {}
        for scale in sorted(set(scales)):
            try:
                image = self._decoder.decode(samples.data(int(number[0])), scale)
            except DecodeError as error:
                return {int(number[0]): error}
            own = [one for one, wants in zip(outputs, scales, strict=True) if wants == scale]
            bad |= self._write(samples, number, EncodedSamples.of(image), own)
        return bad

    def _decoded(
        self, examined: ProbedSamples, numbers: Places, needed: npt.NDArray[np.void], scale: int
    ) -> tuple[EncodedSamples, Numbers]:
        """Return the windows `needed` of samples as pixels in the scratch.

        Their status.
        """
        samples = examined.samples
        sizes = needed["h"].astype(np.int64) * needed["w"] * _CHANNELS
        room = -(-sizes // _ALIGN) * _ALIGN
        offsets = np.cumsum(room) - room
        if len(self._scratch) < int(room.sum()):
            self._scratch = np.empty(max(SCRATCH_BYTES, int(room.sum())), np.uint8)
        packed = np.zeros((1, len(numbers), STEP_NUMBERS), np.int32)
        packed[0, :, :4] = needed.view(np.int32).reshape(-1, 4)
        packed[0, :, 4:6] = packed[0, :, 2:4]
        packed[0, :, 6] = scale
        shapes = np.ascontiguousarray(packed[0, :, 4:6])
        status = np.empty(len(numbers), np.int32)
        self._core.run_chunk(
            self._decode,
            samples.memory,
            samples.offsets[numbers],
            samples.sizes[numbers],
            examined.shapes[numbers],
            packed,
            self._scratch,
            offsets,
            shapes,
            status,
        )
        return EncodedSamples(self._scratch, offsets, sizes, shapes), status

    def _write(
        self, samples: Samples, numbers: Places, stored: EncodedSamples, outputs: Sequence[Output]
    ) -> Bad:
        """Run every chain on the samples `numbers`, whose pixels `stored` holds."""
        bad: Bad = {}
        for output in outputs:
            own = replace(output, chosen=output.chosen[numbers], rows=output.rows[numbers])
            bad |= self._make(samples, numbers, stored, own)
        return bad

    def _make(
        self, samples: Samples, numbers: Places, stored: EncodedSamples, output: Output
    ) -> Bad:
        """Run the chain of one output, which is of the samples `numbers` alone."""
        if not len(numbers):
            return {}
        assert output.view.fused is not None
        status = output.view.fused.run(stored, output.chosen, output.rows, encoded=False)
        return self._refused(samples, numbers, status)

    def _refused(self, samples: Samples, numbers: Places, status: Numbers) -> Bad:
        return {
            int(numbers[place]): self._main.refusal(
                samples, int(numbers[place]), int(status[place])
            )
            for place in np.flatnonzero(status)
        }


def _windows(
    examined: ProbedSamples, outputs: Sequence[Output], wanted: npt.NDArray[np.bool_], scale: int
) -> npt.NDArray[np.void]:
    """Return the part of each decoded image that its users look at."""
    height, width = -(-examined.shapes.T.astype(np.int64) // scale)
    top, left = np.full_like(height, 1 << 30), np.full_like(width, 1 << 30)
    bottom, right = np.zeros_like(height), np.zeros_like(width)
    for output, is_wanted in zip(outputs, wanted, strict=True):
        if not _is_cut(output):
            zero = np.zeros_like(height)
            return windows(zero, zero, height, width)
        first = output.chosen.params[0]
        y, x, h, w = (first[name].astype(np.int64) for name in WINDOW.names or ())
        top = np.where(is_wanted, np.minimum(top, np.clip(y, 0, height)), top)
        left = np.where(is_wanted, np.minimum(left, np.clip(x, 0, width)), left)
        bottom = np.where(is_wanted, np.maximum(bottom, np.clip(y + h, 0, height)), bottom)
        right = np.where(is_wanted, np.maximum(right, np.clip(x + w, 0, width)), right)
    # Where all of them lie beside the image, any pixel of it will do.
    top, left = np.minimum(top, height - 1), np.minimum(left, width - 1)
    return windows(top, left, np.maximum(bottom - top, 1), np.maximum(right - left, 1))


def _is_cut(output: Output) -> bool:
    return output.view.cuts and output.chosen.params[0].dtype == WINDOW


def _portions(numbers: Places, needed: npt.NDArray[np.void]) -> Iterator[Places]:
    """Part samples so that what is decoded of each part fits the scratch."""
    sizes = needed["h"][numbers].astype(np.int64) * needed["w"][numbers] * _CHANNELS + _ALIGN
    start, held = 0, 0
    for place, size in enumerate(sizes.tolist()):
        if held and held + size > SCRATCH_BYTES:
            yield numbers[start:place]
            start, held = place, 0
        held += size
    if start < len(numbers):
        yield numbers[start:]


def _moved(output: Output, numbers: Places, needed: npt.NDArray[np.void]) -> Output:
    """Return an output of samples of which only a window, `needed`, is there."""
    chosen, rows = output.chosen[numbers], output.rows[numbers]
    if not _is_cut(output):  # then whole images are decoded
        return replace(output, chosen=chosen, rows=rows)
    first, origins = chosen.params[0], needed[numbers]
    moved = windows(first["y"] - origins["y"], first["x"] - origins["x"], first["h"], first["w"])
    return replace(output, chosen=replace(chosen, params=[moved, *chosen.params[1:]]), rows=rows)


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
        """Return the samples whose headers say that they are bad."""
        return self._main.probe(samples)
