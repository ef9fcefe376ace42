"""The reader: how blocks come into memory, and in which order samples leave."""

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dtsflow.config.configurable import configurable
from dtsflow.errors import ConfigError, PlanError
from dtsflow.ranks.group import Group, SingleProcess
from dtsflow.ranks.node_memory import node_memory
from dtsflow.reader.block_io import Verify, check_whole_files
from dtsflow.reader.files import RawStore, raw_bytes
from dtsflow.reader.files_on_demand import ImageStore
from dtsflow.reader.interleave import MixSpec
from dtsflow.reader.mix import Mix, MixedSource
from dtsflow.reader.mixed import MixedStore
from dtsflow.reader.order import Ints, Order, Shuffle
from dtsflow.reader.pixels import PixelStore, pixel_store_bytes
from dtsflow.reader.record_stream import StreamStore
from dtsflow.reader.records import RecordStore, window_share
from dtsflow.reader.resident import (
    BlockTable,
    Flags,
    Layout,
    ResidentStore,
    node_share,
    resident_bytes,
)
from dtsflow.reader.rows import Portions
from dtsflow.reader.store import Bytes, Store
from dtsflow.reader.streaming import StreamingStore, streaming_bytes
from dtsflow.reader.subset import Subset
from dtsflow.volume.data_set import DataSet, Source
from dtsflow.volume.datasets.images import RawSet
from dtsflow.volume.datasets.mixed import MixedSet
from dtsflow.volume.datasets.order_from import arranged_as
from dtsflow.volume.datasets.pixels import RawPixels
from dtsflow.volume.datasets.records import RecordSet
from dtsflow.volume.datasets.volume_set import VolumeSet

log = logging.getLogger(__name__)

Mode = Literal["resident", "streaming", "raw"]

_SHARE = 0.75  # of the memory that is allowed: the program itself needs some, too


@configurable
class Reader:
    """Read blocks as they are needed.

    Attributes:
        mode: `resident` keeps all blocks in memory, `streaming` two windows of each
            lane; `auto` is resident where that fits, or takes less. `raw` reads images
            from their own files, and is what `auto` is for those. No sample or order
            depends on it.
        shuffle: `none` keeps volume order, `windows` permutes the samples of a window,
            `blocks` also the blocks, `full` permutes single samples. A pixel set, or
            images in files, have no blocks and take `full` for both; records take what
            their loader allows.
        window_bytes: Bytes of blocks that are shuffled together, over all lanes. Of
            records whose loader does not know their lengths it is what may be in memory
            at a time; more ends the run.
        verify: `block` checks each block against its checksum as it is read, `file`
            also each whole file before, `none` only what the structure tells. Images in
            files are checked against their sizes, with `order_from` and any but `none`
            also against the checksums of what was packed at level 0.
        io_threads: Threads that read, each with its own descriptor.
        io_retries: How often a read is tried again that a network share failed.
        subset: The part of the data set to read; None: all of it. Of a mix, a part of
            all sources together.
        order_from: For images in files, the path of the volumes that were packed from
            them: they give ids, blocks and labels. The sources of a mix have their own.
        mix: The data sets to read as one, by name; None: there is one, the volume.
        mix_samples: Samples of an epoch of a mix with weights; None: as many as all
            sources have.
    """

    mode: Literal["auto", "resident", "streaming", "raw"] = "auto"
    shuffle: Shuffle = Shuffle.BLOCKS
    window_bytes: Annotated[int, Field(ge=1)] = 512 << 20
    verify: Verify = Verify.BLOCK
    io_threads: Annotated[int, Field(ge=1, le=64)] = 4
    io_retries: Annotated[int, Field(ge=0, le=100)] = 3
    subset: Subset | None = None
    order_from: Annotated[str, Field(min_length=1)] | None = None
    mix: Annotated[dict[str, MixedSource], Field(min_length=1)] | None = None
    mix_samples: Annotated[int, Field(ge=1, strict=True)] | None = None

    @model_validator(mode="after")
    def _check_mix(self) -> Self:
        if problem := Mix(self.mix or {}, self.mix_samples).problem():
            raise ValueError(problem)
        if self.mix and self.order_from:
            raise ValueError(
                "order_from is for one data set, and mix names several: give it to the source "
                "that it is for, as mix.NAME.order_from."
            )
        return self

    def source(self, volume: Source | None) -> Source:
        """Return what is read: the mix, or without one `volume`.

        Raises:
            ConfigError: Both are configured, or neither is.
        """
        if self.mix is None:
            if volume is None:
                raise ConfigError("volume: there is no data set: give volume.path, or reader.mix.")
            return volume
        if volume is not None:
            raise ConfigError(
                f"reader.mix names the data sets {', '.join(self.mix)}, and volume another one, "
                "which would not be read. Put it into the mix, or leave volume.path unset."
            )
        return Mix(self.mix, self.mix_samples)

    def mixing(self, volumes: DataSet) -> MixSpec | None:
        """Return how the sources of the mix take turns; None: there is no mix."""
        return None if self.mix is None else Mix(self.mix, self.mix_samples).mixing(volumes)

    def arrange(self, found: DataSet, cache: Path | None = None) -> DataSet:
        """Return what was found, in the order that `order_from` gives it.

        `cache` as in scan.

        Raises:
            PlanError, VolumeError: It cannot give one.
        """
        return found if self.order_from is None else arranged_as(found, self.order_from, cache)

    def choose(self, volumes: DataSet, order: Order, lanes: range, room: int) -> tuple[Mode, str]:
        """Return the mode, and why.

        `room` is the memory that is allowed beside all else.

        Raises:
            PlanError: A mode was asked for that cannot be.
        """
        if not isinstance(volumes, VolumeSet):
            return self._choose_raw(volumes)
        if self.mode == "raw":
            raise PlanError(
                f"reader.mode=raw reads images from their own files, and {volumes.paths[0]} is a "
                "volume. Use resident, streaming or auto; or volume=raw and a folder of images."
            )
        if reason := _why_not_streaming(volumes, order):
            if self.mode == "streaming":
                raise PlanError(f"reader.mode=streaming: {reason}. Use resident or auto.")
            return "resident", "" if self.mode == "resident" else f"auto: {reason}"
        if self.mode != "auto":
            return self.mode, ""
        needed = resident_bytes(volumes, order.counts > 0)
        windows = streaming_bytes(order, lanes)
        if needed <= windows:
            return "resident", f"auto: {needed:,} bytes of blocks, windows take {windows:,}"
        fits = needed <= _SHARE * room
        return (
            "resident" if fits else "streaming",
            f"auto: {needed:,} bytes of blocks {'fit' if fits else 'do not fit'} "
            f"{_SHARE:.0%} of the {room:,} that memory.limit leaves",
        )

    def _choose_raw(self, found: DataSet) -> tuple[Mode, str]:
        if self.mode not in ("auto", "raw"):
            whence = found.loader if isinstance(found, RecordSet) else _raw_place(found)
            raise PlanError(
                f"reader.mode={self.mode} reads volumes, and {whence} was not packed. Use "
                "raw or auto; or pack it first, with `dtsflow pack`."
            )
        if self.mode == "raw":
            return "raw", ""
        if isinstance(found, RecordSet):
            how = "one stream for each lane" if found.is_stream else "as workers need them"
            return "raw", f"auto: {found.loader} reads records, {how}"
        if isinstance(found, MixedSet):
            held = "pixels" if found.layout == "pixels" else "the blocks of volumes"
            read = "" if found.layout == "pixels" else "workers read images from their own files, "
            return "raw", f"auto: {_raw_place(found)} was not packed: {read}{held} stay in memory"
        how = "kept in memory" if found.layout == "pixels" else "read from their own files"
        return "raw", f"auto: nothing was packed, so images are {how}"

    def planned_bytes(
        self,
        mode: Mode,
        volumes: DataSet,
        order: Order,
        lanes: range,
        portions: Portions | None = None,
    ) -> int:
        """Return the bytes of the samples in memory and their index during a run.

        `portions` is needed for a raw set alone.
        """
        if isinstance(volumes, RecordSet):
            return 0  # that depends on the workers, so it is planned with the scratch
        if isinstance(volumes, RawSet):
            assert portions is not None
            return raw_bytes(volumes, portions)
        if isinstance(volumes, RawPixels):
            return pixel_store_bytes(volumes)
        if isinstance(volumes, MixedSet):
            return sum(_source_bytes(*part) for part in _parts(volumes, order))
        assert isinstance(volumes, VolumeSet)
        if mode == "resident":
            return resident_bytes(volumes, order.counts > 0)
        return streaming_bytes(order, lanes)

    def open(  # noqa: PLR0913  # what a store needs to know
        self,
        mode: Mode,
        volumes: DataSet,
        order: Order,
        lanes: range,
        start: tuple[int, int] = (0, 0),
        portions: Portions | None = None,
        *,
        windows: Bytes | None = None,
        group: Group | None = None,
    ) -> Store:
        """Start the IO threads; what is needed from `start`, an epoch and step, first.

        All ranks of `group` open alike: those of a node keep one copy of resident
        blocks. With `verify: file` all volumes are checked before, each by one rank.
        `portions` is needed for what was not packed. Windows are loaded into the memory
        `windows`, if it is given, of `planned_bytes` at least: phases that take turns
        share it.

        Raises:
            VolumeError: A file is damaged as a whole, or cannot be read.
            RanksError: The ranks of a node cannot share memory, or one did not come.
        """
        group = group or SingleProcess()
        how = (self.io_threads, self.verify, self.io_retries)
        if isinstance(volumes, RecordSet):
            assert portions is not None
            return _record_store(volumes, portions, self.window_bytes)
        if isinstance(volumes, RawSet):
            assert portions is not None
            return RawStore(volumes, portions, *how)
        if isinstance(volumes, RawPixels):
            return PixelStore(volumes)
        if isinstance(volumes, MixedSet):
            delivery = order.epoch(start[0]).delivery(lanes, start[1])
            return self._mixed(volumes, order, delivery, group)
        assert isinstance(volumes, VolumeSet)
        self._check_files(volumes, group)
        if mode == "resident":
            deliver = partial(order.epoch(start[0]).delivery, first_step=start[1])
            own, size = group.rank.index, group.rank.size
            lanes_of = {peer: order.lanes_of(peer, size) for peer in group.peers if peer != own}
            deliveries = [deliver(lanes_of.get(peer, lanes)) for peer in group.peers]
            return self._resident(volumes, order.counts > 0, deliveries, group)
        return StreamingStore(volumes, order, lanes, *how, memory=windows)

    def _check_files(self, volumes: VolumeSet, group: Group) -> None:
        if self.verify is Verify.FILE:
            check_whole_files(
                volumes, self.io_threads, slice(group.rank.index, None, group.rank.size)
            )
            group.gather_texts("")  # nobody begins before all are checked
        elif self.verify is Verify.BLOCK and not volumes.has_checksums:
            log.info("no index, so no checksum for each block: only the structure is verified")

    def _mixed(self, mix: MixedSet, order: Order, delivery: Ints, group: Group) -> MixedStore:
        """Return a store for each source.

        This process alone has them.
        """
        stores: list[Store] = []
        try:
            for number, (source, needed) in enumerate(_parts(mix, order)):
                if isinstance(source, RawSet):
                    first_id = int(mix.first_samples[number])
                    stores.append(ImageStore(source, self.verify, self.io_retries, first_id))
                    continue
                first = mix.first_blocks[number]
                inside = (delivery >= first) & (delivery < first + len(needed))
                stores.append(self._of_source(source, needed, delivery[inside] - first, group))
        except BaseException:
            for store in stores:
                store.close()
            raise
        return MixedStore(mix, stores)

    def _of_source(self, source: DataSet, needed: Flags, delivery: Ints, group: Group) -> Store:
        if isinstance(source, RawPixels):
            return PixelStore(source)
        assert isinstance(source, VolumeSet)
        self._check_files(source, group)
        return self._resident(source, needed, [delivery], SingleProcess())

    def _resident(
        self, volumes: VolumeSet, needed: Flags, deliveries: Sequence[Ints], group: Group
    ) -> ResidentStore:
        """Return one memory for the ranks of a node, into which each reads its part."""
        local = group.rank.local_index
        layout = Layout.of(volumes, needed, len(group.peers))
        memory = node_memory(group, layout.total_bytes)
        table = BlockTable(volumes, self.verify, layout, memory, local)
        blocks = node_share(needed, deliveries, local)
        return ResidentStore(table, blocks, self.io_threads, self.verify, self.io_retries)


def _record_store(records: RecordSet, portions: Portions, window_bytes: int) -> Store:
    limit = window_share(portions, window_bytes) if records.lengths is None else None
    if records.is_stream:
        return StreamStore(records, portions, limit)
    return RecordStore(records, limit)


def _parts(mix: MixedSet, order: Order) -> Iterator[tuple[DataSet, Flags]]:
    """Return each source of a mix, and its blocks that hold a sample that is read."""
    for source, own in zip(mix.sources, order.sources, strict=True):
        yield source, order.counts[own.start : own.stop] > 0


def _source_bytes(source: DataSet, needed: Flags) -> int:
    """Return what the store of a source keeps.

    Images that workers read count as nothing.
    """
    if isinstance(source, RawPixels):
        return pixel_store_bytes(source)
    return resident_bytes(source, needed) if isinstance(source, VolumeSet) else 0


def _raw_place(found: DataSet) -> Path:
    """Return the first file or folder of a set that was not packed."""
    sources = found.sources if isinstance(found, MixedSet) else (found,)
    return next(one.paths[0] for one in sources if not isinstance(one, VolumeSet))


def _why_not_streaming(volumes: VolumeSet, order: Order) -> str:
    if volumes.layout == "pixels":
        return "a set of pixels has no blocks, and is small"
    if order.shuffle is Shuffle.FULL:
        return "shuffle=full takes samples from all blocks at once"
    return ""
