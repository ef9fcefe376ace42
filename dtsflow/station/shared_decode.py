"""Decoding by the compiled core, each sample once for all that is made of it."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Final

import numpy as np
import numpy.typing as npt

from dtsflow.decode.decoder import Decoder
from dtsflow.errors import DecodeError
from dtsflow.native.steps import AS_STORED, CASTS, STEP_NUMBERS, Status, StepKind
from dtsflow.po.fused import Rows, Stored
from dtsflow.po.window import WINDOW, windows
from dtsflow.reader.samples import Samples
from dtsflow.station.engine import Bad, Places
from dtsflow.station.fused import NativeEngine, Numbers
from dtsflow.station.output import Examined, Output

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

    def examine(self, samples: Samples) -> tuple[Examined, Bad]:
        """What the headers of samples tell; and which are bad, then all is in vain."""
        shapes, handed, bad = self._main.examine(samples)
        return Examined(samples, shapes, handed), bad

    def jpegs(self, examined: Examined) -> npt.NDArray[np.bool_]:
        """Which samples can be decoded at a part of their size."""
        return self._main.jpegs(examined.samples, examined.handed)

    def run(self, examined: Examined, outputs: Sequence[Output]) -> Bad:
        """Write all outputs, but the rows of the bad samples that it gives."""
        began = time.perf_counter()
        bad = self._run(examined, outputs)
        self.times.native += time.perf_counter() - began
        return bad

    def _run(self, examined: Examined, outputs: Sequence[Output]) -> Bad:
        samples, handed = examined.samples, examined.handed
        ours = np.setdiff1d(np.arange(len(samples)), handed)
        if not self._encoded:
            stored = Stored(samples.memory, samples.offsets, samples.sizes, examined.shapes)
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
        stored = Stored(source.memory, source.offsets, sizes, shapes)
        assert output.view.fused is not None
        status = output.view.fused.run(stored, output.chosen, output.rows, encoded=False)
        self.times.native += time.perf_counter() - began
        if (status == Status.NO_MEMORY).any():
            raise MemoryError("no memory to make rows of kept images")
        assert not status.any()

    def _run_at(
        self, examined: Examined, ours: Places, outputs: Sequence[Output], scale: int
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
            bad |= self._write(samples, number, Stored.of(image), own)
        return bad

    def _decoded(
        self, examined: Examined, numbers: Places, needed: npt.NDArray[np.void], scale: int
    ) -> tuple[Stored, Numbers]:
        """The windows `needed` of samples as pixels in the scratch; their status."""
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
        return Stored(self._scratch, offsets, sizes, shapes), status

    def _write(
        self, samples: Samples, numbers: Places, stored: Stored, outputs: Sequence[Output]
    ) -> Bad:
        """Run every chain on the samples `numbers`, whose pixels `stored` holds."""
        bad: Bad = {}
        for output in outputs:
            own = replace(output, chosen=output.chosen[numbers], rows=output.rows[numbers])
            bad |= self._make(samples, numbers, stored, own)
        return bad

    def _make(self, samples: Samples, numbers: Places, stored: Stored, output: Output) -> Bad:
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
    examined: Examined, outputs: Sequence[Output], wanted: npt.NDArray[np.bool_], scale: int
) -> npt.NDArray[np.void]:
    """The part of each image, as it is decoded, that those who want it look at."""
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
    """An output of some samples of which only a window, `needed` of all, is there."""
    chosen, rows = output.chosen[numbers], output.rows[numbers]
    if not _is_cut(output):  # then whole images are decoded
        return replace(output, chosen=chosen, rows=rows)
    first, origins = chosen.params[0], needed[numbers]
    moved = windows(first["y"] - origins["y"], first["x"] - origins["x"], first["h"], first["w"])
    return replace(output, chosen=replace(chosen, params=[moved, *chosen.params[1:]]), rows=rows)
