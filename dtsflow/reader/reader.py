"""How blocks come from the disk into memory, and in which order samples leave."""

import logging
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dtsflow.configurable import configurable
from dtsflow.errors import ConfigError, PlanError
from dtsflow.reader.block_reader import Verify
from dtsflow.reader.merging import Mixing
from dtsflow.reader.mix import Mix, MixedSource
from dtsflow.reader.order import Order, Shuffle
from dtsflow.reader.resident import ResidentStore, resident_bytes
from dtsflow.reader.store import Store
from dtsflow.reader.streaming import StreamingStore, streaming_bytes
from dtsflow.reader.subset import Subset
from dtsflow.reader.whole_files import check_whole_files
from dtsflow.volume.data_source import Source
from dtsflow.volume.volume_set import VolumeSet

log = logging.getLogger(__name__)

Mode = Literal["resident", "streaming"]

_SHARE = 0.75  # of the memory that is allowed: the program itself needs some, too


@configurable
class Reader:
    """Read blocks as they are needed.

    Attributes:
        mode: `resident` keeps all blocks in memory, `streaming` two windows of each
            lane; `auto` is resident where that fits, or takes less. No sample or order
            depends on it.
        shuffle: `none` keeps volume order, `blocks` permutes blocks and the samples of
            a window, `full` permutes single samples. A pixel set has no blocks and
            takes `full` for `blocks`.
        window_bytes: Bytes of blocks that are shuffled together, over all lanes.
        verify: `block` checks each block against its checksum as it is read, `file`
            also each whole file before, `none` only what the structure tells.
        io_threads: Threads that read, each with its own descriptor.
        io_retries: How often a read is tried again that a network share failed.
        subset: The part of the data set to read; None: all of it. Of a mix, a part of
            all sources together.
        mix: The data sets to read as one, by name; None: there is one, the volume.
        mix_samples: Samples of an epoch of a mix with weights; None: as many as all
            sources have.
    """

    mode: Literal["auto", "resident", "streaming"] = "auto"
    shuffle: Shuffle = Shuffle.BLOCKS
    window_bytes: Annotated[int, Field(ge=1)] = 512 << 20
    verify: Verify = Verify.BLOCK
    io_threads: Annotated[int, Field(ge=1, le=64)] = 4
    io_retries: Annotated[int, Field(ge=0, le=100)] = 3
    subset: Subset | None = None
    mix: Annotated[dict[str, MixedSource], Field(min_length=1)] | None = None
    mix_samples: Annotated[int, Field(ge=1, strict=True)] | None = None

    @model_validator(mode="after")
    def _check_mix(self) -> Self:
        if problem := Mix(self.mix or {}, self.mix_samples).problem():
            raise ValueError(problem)
        return self

    def source(self, volume: Source | None) -> Source:
        """What is read: the mix, or without one `volume`.

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

    def mixing(self, volumes: VolumeSet) -> Mixing | None:
        """How the sources of the mix take turns; None: there is no mix."""
        return None if self.mix is None else Mix(self.mix, self.mix_samples).mixing(volumes)

    def choose(self, volumes: VolumeSet, order: Order, lanes: range, room: int) -> tuple[Mode, str]:
        """The mode, and why; `room` is the memory that is allowed beside all else.

        Raises:
            PlanError: Streaming was asked for and cannot be.
        """
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

    def planned_bytes(self, mode: Mode, volumes: VolumeSet, order: Order, lanes: range) -> int:
        """Bytes that the blocks in memory and their index occupy during a run."""
        if mode == "resident":
            return resident_bytes(volumes, order.counts > 0)
        return streaming_bytes(order, lanes)

    def open(
        self,
        mode: Mode,
        volumes: VolumeSet,
        order: Order,
        lanes: range,
        start: tuple[int, int] = (0, 0),
    ) -> Store:
        """Start the IO threads; what is needed from `start`, an epoch and step, first.

        With `verify: file` all files are checked before.

        Raises:
            VolumeError: A file is damaged as a whole, or cannot be read.
        """
        if self.verify is Verify.FILE:
            check_whole_files(volumes, self.io_threads)
        elif self.verify is Verify.BLOCK and not volumes.has_checksums:
            log.info("no index, so no checksum for each block: only the structure is verified")
        how = (self.io_threads, self.verify, self.io_retries)
        if mode == "resident":
            delivery = order.epoch(start[0]).delivery(lanes, start[1])
            return ResidentStore(volumes, delivery, *how, needed=order.counts > 0)
        return StreamingStore(volumes, order, lanes, *how)


def _why_not_streaming(volumes: VolumeSet, order: Order) -> str:
    if volumes.layout == "pixels":
        return "a set of pixels has no blocks, and is small"
    if order.shuffle is Shuffle.FULL:
        return "shuffle=full takes samples from all blocks at once"
    return ""
