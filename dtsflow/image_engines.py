"""What one worker fills rows of images with, put together."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

from dtsflow.decode.decoder import Decoder
from dtsflow.po.branch import Branch
from dtsflow.po.cut_chain import CutChain
from dtsflow.po.fused import FusedProgram
from dtsflow.spec import IMAGES, ImageSpec
from dtsflow.station.engine import Engine
from dtsflow.station.fused import NativeEngine
from dtsflow.station.keeping import KeepingEngine, KeptChain, Sharing
from dtsflow.station.native_views import NativeViewsEngine
from dtsflow.station.output import View
from dtsflow.station.reference import ReferenceDecode, ReferenceEngine
from dtsflow.station.row_store import RowLayout, RowStore
from dtsflow.station.shared_decode import SharedDecode
from dtsflow.station.station import Station


@dataclass(frozen=True)
class ImageEngines:
    """The parts of a worker's engine.

    Attributes:
        core: The compiled core; None: the reference path.
        decoder: Decodes, where the core does not.
        station: Where the rows go.
        branches: The chains, by the field that each makes, the main one first.
        pixels: The one image of a pixel set; None where samples are encoded.
        turns: Whether EXIF orientations are applied.
        shrinks: Whether JPEGs are decoded at a part of their size where that will do.
    """

    core: ModuleType | None
    decoder: Decoder
    station: Station
    branches: Mapping[str, Branch]
    pixels: ImageSpec | None
    turns: bool
    shrinks: bool

    def engine(self, kept: RowStore | None = None) -> Engine:
        """The engine; with `kept` it keeps rows of later epochs, and copies its own."""
        engine, sharing = self._reference() if self.core is None else self._native(self.core)
        return engine if kept is None else self._keeping(engine, sharing, kept)

    def _reference(self) -> tuple[Engine, Sharing]:
        programs = {name: view.program for name, view in self._views.items()}
        main = programs.pop(IMAGES)
        decode = ReferenceDecode(self.decoder)
        return ReferenceEngine(decode, main, views=programs, shrinks=self.shrinks), decode

    def _native(self, core: ModuleType) -> tuple[Engine, Sharing]:
        main = self._views[IMAGES]
        assert main.fused is not None
        alone = NativeEngine(
            core,
            self.decoder,
            main.program,
            main.fused,
            self.pixels,
            turns=self.turns,
            shrinks=self.shrinks,
        )
        shared = SharedDecode(core, self.decoder, alone, encoded=self.pixels is None)
        if len(self._views) == 1:
            return alone, shared
        return NativeViewsEngine(alone, self._views, shared, shrinks=self.shrinks), shared

    def _keeping(self, engine: Engine, sharing: Sharing, kept: RowStore) -> KeepingEngine:
        cut = {name: CutChain.of(branch) for name, branch in self.branches.items()}
        chains = {
            name: KeptChain(
                whole=self._views[name],
                head=self._view(one.head, one.kept.channels),
                tail=self._view(one.tail, self._stored(one.tail.out_spec)),
            )
            for name, one in cut.items()
        }
        layout = RowLayout({name: one.kept for name, one in cut.items()})
        return KeepingEngine(engine, sharing, chains, kept, layout, shrinks=self.shrinks)

    @cached_property
    def _views(self) -> dict[str, View]:
        return {
            name: self._view(branch, self._stored(branch.out_spec))
            for name, branch in self.branches.items()
        }

    def _stored(self, spec: ImageSpec) -> int:
        return self.station.stored_channels(spec.channels, spec.dtype)

    def _view(self, branch: Branch, stored: int) -> View:
        if self.core is None:
            return View.of(branch, None)
        fused = FusedProgram(self.core, branch.operations, branch.specs, stored)
        return View.of(branch, fused, self.core)
