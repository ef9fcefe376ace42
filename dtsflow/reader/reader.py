"""How blocks come from the disk into memory, and in which order samples leave."""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from dtsflow.configurable import configurable
from dtsflow.errors import PlanError
from dtsflow.ranks.alone import Alone
from dtsflow.ranks.group import Group
from dtsflow.ranks.node_memory import node_memory
from dtsflow.reader.block_reader import Verify
from dtsflow.reader.block_table import BlockTable, Flags, Layout
from dtsflow.reader.node_share import node_share
from dtsflow.reader.order import Ints, Order, Shuffle
from dtsflow.reader.resident import ResidentStore, resident_bytes
from dtsflow.reader.samples import Bytes
from dtsflow.reader.store import Store
from dtsflow.reader.streaming import StreamingStore, streaming_bytes
from dtsflow.reader.subset import Subset
from dtsflow.reader.whole_files import check_whole_files
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
        subset: The part of the data set to read; None: all of it.
    """

    mode: Literal["auto", "resident", "streaming"] = "auto"
    shuffle: Shuffle = Shuffle.BLOCKS
    window_bytes: Annotated[int, Field(ge=1)] = 512 << 20
    verify: Verify = Verify.BLOCK
    io_threads: Annotated[int, Field(ge=1, le=64)] = 4
    io_retries: Annotated[int, Field(ge=0, le=100)] = 3
    subset: Subset | None = None

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

    def open(  # noqa: PLR0913  # all of it is what one plan says
        self,
        mode: Mode,
        volumes: VolumeSet,
        order: Order,
        lanes: range,
        start: tuple[int, int] = (0, 0),
        *,
        windows: Bytes | None = None,
        group: Group | None = None,
    ) -> Store:
        """Start the IO threads; what is needed from `start`, an epoch and step, first.

        All ranks of `group` open alike: those of a node keep one copy of resident
        blocks. With `verify: file` all files are checked before, each by one rank.
        Windows are loaded into the memory `windows`, if it is given, of `planned_bytes`
        at least: phases that take turns share it.

        Raises:
            VolumeError: A file is damaged as a whole, or cannot be read.
            RanksError: The ranks of a node cannot share memory, or one did not come.
        """
        group = group or Alone()
        if self.verify is Verify.FILE:
            check_whole_files(
                volumes, self.io_threads, slice(group.rank.index, None, group.rank.size)
            )
            group.gather_texts("")  # nobody begins before all are checked
        elif self.verify is Verify.BLOCK and not volumes.has_checksums:
            log.info("no index, so no checksum for each block: only the structure is verified")
        if mode == "resident":
            delivery = partial(order.epoch(start[0]).delivery, first_step=start[1])
            own, size = group.rank.index, group.rank.size
            lanes_of = {peer: order.lanes_of(peer, size) for peer in group.peers if peer != own}
            deliveries = [delivery(lanes_of.get(peer, lanes)) for peer in group.peers]
            return self._resident(volumes, order.counts > 0, deliveries, group)
        how = (self.io_threads, self.verify, self.io_retries)
        return StreamingStore(volumes, order, lanes, *how, memory=windows)

    def _resident(
        self, volumes: VolumeSet, needed: Flags, deliveries: Sequence[Ints], group: Group
    ) -> ResidentStore:
        """One memory for the ranks of a node, into which each reads its part."""
        local = group.rank.local_index
        layout = Layout.of(volumes, needed, len(group.peers))
        memory = node_memory(group, layout.total_bytes)
        table = BlockTable(volumes, self.verify, layout, memory, local)
        blocks = node_share(needed, deliveries, local)
        return ResidentStore(table, blocks, self.io_threads, self.verify, self.io_retries)


def _why_not_streaming(volumes: VolumeSet, order: Order) -> str:
    if volumes.layout == "pixels":
        return "a set of pixels has no blocks, and is small"
    if order.shuffle is Shuffle.FULL:
        return "shuffle=full takes samples from all blocks at once"
    return ""
