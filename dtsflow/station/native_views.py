"""The native engine of several chains: each sample is decoded once, for all of them."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Final

import numpy as np
import numpy.typing as npt

from dtsflow.decode.decoder import Decoder
from dtsflow.errors import DecodeError
from dtsflow.native.steps import AS_STORED, CASTS, STEP_NUMBERS, StepKind
from dtsflow.po.fused import Chosen, FusedProgram, Lowered, Stored
from dtsflow.po.operation import Operation
from dtsflow.po.program import Program
from dtsflow.po.window import WINDOW, windows
from dtsflow.reader.samples import Samples
from dtsflow.station.drawing import draw_views, shrink_views
from dtsflow.station.engine import Address, Bad, Places, StageTimes, fill_others
from dtsflow.station.fused import NativeEngine, Numbers, rows_of
from dtsflow.station.zone import Zone

SCRATCH_BYTES: Final = 8 << 20
"""Decoded pixels that one worker holds, unless a single image is larger."""

_ALIGN: Final = 64  # bytes: where each decoded image begins
_CHANNELS: Final = 3  # of every image that is encoded
_CUTS: Final = (StepKind.SCALE, StepKind.SCALE_PLAIN, StepKind.CROP)


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """One chain, as two programs.

    Attributes:
        program: Draws parameters.
        fused: The chain in the core.
        cuts: Whether it looks at no more than a window of the decoded image.
    """

    program: Program
    fused: FusedProgram
    cuts: bool


def cuts(operations: tuple[Operation, ...]) -> bool:
    """Whether a chain begins with a window of the image."""
    return bool(operations) and isinstance(operations[0], Lowered) and operations[0].step in _CUTS


class NativeViewsEngine:
    """Fills several fields by the compiled core; satisfies Engine.

    Args:
        core: The compiled module.
        decoder: The reference decoder.
        main: The engine of the main chain alone, which knows what samples are.
        views: All chains, by the field that each makes, the main one first.
        encoded: Whether samples are encoded; else they are pixels.
        shrinks: Whether JPEGs are decoded at a part of their size where that will do.
    """

    def __init__(  # a worker's parts, joined in one place only
        self,
        core: ModuleType,
        decoder: Decoder,
        main: NativeEngine,
        views: Mapping[str, View],
        *,
        encoded: bool,
        shrinks: bool = False,
    ) -> None:
        self._core = core
        self._decoder = decoder
        self._main = main
        self._views = dict(views)
        self._encoded = encoded
        self._shrinks = shrinks
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
        self.times = StageTimes()

    def fill(self, samples: Samples, address: Address, zone: Zone, places: Places) -> Bad:
        """Write the rows of all samples but the bad ones, which it gives."""
        began = time.perf_counter()
        shapes, handed, bad = self._main.examine(samples)
        if bad:
            return fill_others(self, samples, address, zone, places, bad)
        programs = [view.program for view in self._views.values()]
        drawn, bad = draw_views(programs, samples, address, shapes.astype(np.int64))
        if bad:
            return fill_others(self, samples, address, zone, places, bad)
        if self._shrinks:
            drawn = shrink_views(drawn, self._main.jpegs(samples, handed))
        drew = time.perf_counter()
        filling = _Filling(samples, shapes, drawn, zone, places)
        bad = self._write(filling, handed)
        self.times.po += drew - began
        self.times.native += time.perf_counter() - drew
        return bad

    def probe(self, samples: Samples) -> Bad:
        """The samples whose headers say that they are bad."""
        return self._main.probe(samples)

    def _write(self, filling: "_Filling", handed: Places) -> Bad:
        samples = filling.samples
        ours = np.setdiff1d(np.arange(len(samples)), handed)
        if not self._encoded:
            stored = Stored(samples.memory, samples.offsets, samples.sizes, filling.shapes)
            return self._run(filling, ours, stored, filling.drawn)
        bad: Bad = {}
        needed = self._windows(filling)
        for numbers in _portions(ours, needed):
            bad |= self._decode_and_run(filling, numbers, needed[numbers])
        for number in handed:
            scale = int(filling.drawn[0].scales[number])
            try:
                image = self._decoder.decode(samples.data(int(number)), scale)
            except DecodeError as error:
                bad[int(number)] = error
                continue
            own = [one[number[None]] for one in filling.drawn]
            bad |= self._run(filling, number[None], Stored.of(image), own)
        return bad

    def _windows(self, filling: "_Filling") -> npt.NDArray[np.void]:
        """The part of each image, as it is decoded, that any of the chains looks at."""
        height, width = -(-filling.shapes.T.astype(np.int64) // filling.drawn[0].scales)
        top, left = np.full_like(height, 1 << 30), np.full_like(width, 1 << 30)
        bottom, right = np.zeros_like(height), np.zeros_like(width)
        for view, own in zip(self._views.values(), filling.drawn, strict=True):
            if not view.cuts or own.params[0].dtype != WINDOW:
                zero = np.zeros_like(height)
                return windows(zero, zero, height, width)
            y, x, h, w = (own.params[0][name].astype(np.int64) for name in WINDOW.names or ())
            top, left = (
                np.minimum(top, np.clip(y, 0, height)),
                np.minimum(left, np.clip(x, 0, width)),
            )
            bottom = np.maximum(bottom, np.clip(y + h, 0, height))
            right = np.maximum(right, np.clip(x + w, 0, width))
        # Where all of them lie beside the image, any pixel of it will do.
        top, left = np.minimum(top, height - 1), np.minimum(left, width - 1)
        return windows(top, left, np.maximum(bottom - top, 1), np.maximum(right - left, 1))

    def _decode_and_run(
        self, filling: "_Filling", numbers: Places, needed: npt.NDArray[np.void]
    ) -> Bad:
        stored, status = self._decoded(filling, numbers, needed)
        good = np.flatnonzero(status == 0)
        bad = {
            int(numbers[place]): self._main.refusal(
                filling.samples, int(numbers[place]), int(status[place])
            )
            for place in np.flatnonzero(status)
        }
        if not len(good):
            return bad
        own = [
            _moved(one[numbers[good]], needed[good]) if view.cuts else one[numbers[good]]
            for view, one in zip(self._views.values(), filling.drawn, strict=True)
        ]
        return bad | self._run(filling, numbers[good], stored[good], own)

    def _decoded(
        self, filling: "_Filling", numbers: Places, needed: npt.NDArray[np.void]
    ) -> tuple[Stored, Numbers]:
        """The windows `needed` of samples as pixels in the scratch; their status."""
        samples = filling.samples
        sizes = needed["h"].astype(np.int64) * needed["w"] * _CHANNELS
        room = -(-sizes // _ALIGN) * _ALIGN
        offsets = np.cumsum(room) - room
        if len(self._scratch) < int(room.sum()):
            self._scratch = np.empty(max(SCRATCH_BYTES, int(room.sum())), np.uint8)
        packed = np.zeros((1, len(numbers), STEP_NUMBERS), np.int32)
        packed[0, :, :4] = needed.view(np.int32).reshape(-1, 4)
        packed[0, :, 4:6] = packed[0, :, 2:4]
        packed[0, :, 6] = filling.drawn[0].scales[numbers]
        shapes = np.ascontiguousarray(packed[0, :, 4:6])
        status = np.empty(len(numbers), np.int32)
        self._core.run_chunk(
            self._decode,
            samples.memory,
            samples.offsets[numbers],
            samples.sizes[numbers],
            filling.shapes[numbers],
            packed,
            self._scratch,
            offsets,
            shapes,
            status,
        )
        return Stored(self._scratch, offsets, sizes, shapes), status

    def _run(
        self, filling: "_Filling", numbers: Places, stored: Stored, drawn: list[Chosen]
    ) -> Bad:
        """Run every chain on the samples `numbers`, whose pixels `stored` holds."""
        bad: Bad = {}
        for (name, view), own in zip(self._views.items(), drawn, strict=True):
            rows = rows_of(filling.zone, name, filling.places[numbers])
            status = view.fused.run(stored, own, rows, encoded=False)
            for place in np.flatnonzero(status):
                number = int(numbers[place])
                bad[number] = self._main.refusal(filling.samples, number, int(status[place]))
        return bad


@dataclass(frozen=True, slots=True, eq=False)
class _Filling:
    """What one call of `fill` is about."""

    samples: Samples
    shapes: Numbers
    drawn: list[Chosen]
    zone: Zone
    places: Places


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


def _moved(chosen: Chosen, origins: npt.NDArray[np.void]) -> Chosen:
    """The same for images of which only a window from `origins` on is there."""
    first = chosen.params[0]
    if first.dtype != WINDOW:  # then whole images are decoded
        return chosen
    moved = windows(first["y"] - origins["y"], first["x"] - origins["x"], first["h"], first["w"])
    return replace(chosen, params=[moved, *chosen.params[1:]])
