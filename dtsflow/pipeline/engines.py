"""The engine with which one worker fills rows of images, put together.

It may reuse rows between epochs; the memory for that is planned here, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import ModuleType

from dtsflow.decode.decoder import Decoder
from dtsflow.errors import PlanError
from dtsflow.po.chain import Branch, ChainVersion, CutChain
from dtsflow.po.native import FusedProgram
from dtsflow.reader.order import Order, Shuffle
from dtsflow.spec import IMAGES, ImageSpec
from dtsflow.station.caching_engine import CachingEngine, KeptChain, Sharing
from dtsflow.station.double_buffer import Station
from dtsflow.station.engine import Engine, View
from dtsflow.station.native_engine import NativeEngine, NativeViewsEngine, SharedDecode
from dtsflow.station.reference_engine import ReferenceDecode, ReferenceEngine
from dtsflow.station.row_cache import CachePolicy, RowCache, RowLayout


@dataclass(frozen=True)
class ImageEngines:
    """The parts of a worker's engine.

    Attributes:
        core: The compiled core; None: the reference path.
        decoder: Decodes, where the core does not.
        station: Where the rows go.
        branches: The chains, by the field that each makes, the main one first.
        pixels: The one image of a pixel set; None where samples are encoded.
        apply_orientation: Whether EXIF orientations are applied.
        shrinks: Whether JPEGs are decoded at a part of their size where that will do.
    """

    core: ModuleType | None
    decoder: Decoder
    station: Station
    branches: Mapping[str, Branch]
    pixels: ImageSpec | None
    apply_orientation: bool
    shrinks: bool

    def engine(self, kept: RowCache | None = None) -> Engine:
        """Return the engine.

        With `kept` it keeps rows of later epochs, and copies its own.
        """
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
            apply_orientation=self.apply_orientation,
            shrinks=self.shrinks,
        )
        shared = SharedDecode(core, self.decoder, alone, encoded=self.pixels is None)
        if len(self._views) == 1:
            return alone, shared
        return NativeViewsEngine(alone, self._views, shared, shrinks=self.shrinks), shared

    def _keeping(self, engine: Engine, sharing: Sharing, kept: RowCache) -> CachingEngine:
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
        return CachingEngine(engine, sharing, chains, kept, layout, shrinks=self.shrinks)

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


def longest_row(chain_versions: Sequence[ChainVersion]) -> int:
    """Return the bytes of a sample's longest kept row, in any chain version."""
    return max(_layout(chain_version).nbytes for chain_version in chain_versions)


def check_reuse(
    reuse: CachePolicy, order: Order, chain_versions: Sequence[ChainVersion], phase: str
) -> None:
    """Refuse a reuse that could not give the rows that no reuse would.

    `phase` is the name of the phase, empty where there is but one.

    Raises:
        PlanError: Says which operation, epoch or setting is in the way.
    """
    where = f"phases.{phase}." if phase else ""
    if reuse.always:
        _check_always(order, chain_versions, where)
    elif reuse.factor > 1:
        _check_groups(reuse.factor, chain_versions, where)
    for chain_version in chain_versions if reuse.slots else ():
        try:
            _layout(chain_version)
        except PlanError as error:
            what = "cpvs=true" if reuse.always else f"sdmp_factor={reuse.factor}"
            raise PlanError(f"{where}decode.{what}: {error}") from error


def _layout(chain_version: ChainVersion) -> RowLayout:
    return RowLayout(
        {name: CutChain.of(branch).kept for name, branch in chain_version.branches.items()}
    )


def _check_always(order: Order, chain_versions: Sequence[ChainVersion], where: str) -> None:
    if order.shuffle in (Shuffle.BLOCKS, Shuffle.FULL):
        raise PlanError(
            f"{where}decode.cpvs=true keeps rows by their place in the order of blocks, and with "
            f"shuffle={order.shuffle.value} that is another one in every epoch. Set "
            f"{where}reader.shuffle=none (or windows, for a set in blocks), or cpvs=false."
        )
    for chain_version in chain_versions:
        for name, branch in chain_version.branches.items():
            for operation in branch.operations:
                if operation.words:
                    raise PlanError(
                        f"{where}decode.cpvs=true keeps rows for all epochs, and "
                        f"{type(operation).__name__}, which makes {name}, draws others in each. "
                        "Leave it out of this phase's chain, or set cpvs=false."
                    )


def _check_groups(factor: int, chain_versions: Sequence[ChainVersion], where: str) -> None:
    for before, after in pairwise(chain_versions):
        first = after.first
        if first % factor and after.branches != before.branches:
            raise PlanError(
                f"{where}decode.sdmp_factor={factor}: the rows of epoch {first} are made in "
                f"epoch {first // factor * factor} already, and a schedule changes the chain "
                f"at {first}. Let it change at multiples of {factor} only."
            )
