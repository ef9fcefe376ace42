"""The reads and deliveries of a run's ranks, from the counts of the blocks alone.

Closed form over all lanes at once, so that thousands of ranks and a million blocks take
seconds. The definitions are those of docs/design.md section 4.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dtsflow.reader.lanes import window_sizes
from dtsflow.reader.order import Ints, Order, Shuffle, Tail
from dtsflow.seed.address import Purpose
from dtsflow.seed.draws import permutation
from dtsflow.volume.format.header import BLOCK_BYTES


@dataclass(frozen=True, eq=False)
class Simulation:
    """One epoch of one phase, on `size` ranks, `per_node` of them on each node.

    Attributes:
        order: The order of the phase.
        size: Ranks; they divide the order's lanes.
        per_node: Ranks of a node; the last node may have fewer.
        block_bytes: Bytes of a block.

    Raises:
        PlanError: The ranks cannot share the lanes.
    """

    order: Order
    size: int
    per_node: int
    block_bytes: int = BLOCK_BYTES

    def __post_init__(self) -> None:
        self.order.lanes_of(0, self.size)

    @property
    def nodes(self) -> int:
        """Nodes that the ranks are on."""
        return -(-self.size // self.per_node)

    @property
    def data_bytes(self) -> int:
        """Return the bytes of the blocks that hold samples, each once."""
        return int((self.order.counts > 0).sum()) * self.block_bytes

    @cached_property
    def rank_samples(self) -> Ints:
        """Valid rows that each rank is handed in an epoch."""
        order = self.order
        rows = np.full(order.lanes, order.steps * order.lane_rows, np.int64)
        if order.tail is Tail.PAD:
            rows = _lane_samples(order)
        return self._of_ranks(rows)

    @cached_property
    def streamed_bytes(self) -> Ints:
        """Return the bytes that each rank reads in the first epoch when it streams."""
        return self._of_ranks(lane_blocks(self.order)) * self.block_bytes

    @cached_property
    def node_streamed_bytes(self) -> Ints:
        """Return the bytes that each node reads in epoch 0 when its ranks stream."""
        return np.add.reduceat(self.streamed_bytes, np.arange(0, self.size, self.per_node))

    def _of_ranks(self, of_lanes: Ints) -> Ints:
        of_ranks: Ints = of_lanes.reshape(self.size, -1).sum(axis=1)
        return of_ranks


def lane_blocks(order: Order, epoch: int = 0) -> Ints:
    """Blocks that each lane reads in an epoch when it streams.

    A block that two lanes need counts for both, and again where a lane wraps.
    """
    starts = _starts(order, epoch)
    lanes = _delivered_lanes(order)
    first, stop = _bounds(order, lanes)
    turn, end = _turns(starts, first, stop)
    held = end - turn  # blocks of each lane
    cuts = np.cumsum([0, *window_sizes(int(held.max()), order.window)])

    samples = stop - first
    wanted = np.full(order.lanes, order.steps * order.lane_rows, np.int64)
    if order.tail is not Tail.WRAP:
        wanted = np.minimum(wanted, samples)
    full = wanted // np.maximum(1, samples)
    rest = wanted - full * samples
    # Whole windows are read, up to the one that holds the lane's last sample.
    place = np.searchsorted(starts, first + np.maximum(1, rest) - 1, side="right") - 1 - turn
    partly = np.minimum(held, cuts[np.searchsorted(cuts, place, side="right")])
    found: Ints = full * held + np.where(rest > 0, partly, 0)
    return found


def _lane_samples(order: Order) -> Ints:
    first, stop = _bounds(order, np.arange(order.lanes, dtype=np.int64))
    samples: Ints = stop - first
    return samples


def _bounds(order: Order, lanes: Ints) -> tuple[Ints, Ints]:
    # Lanes are < 2**16 and samples < 2**40, so a product fits.
    return lanes * order.samples // order.lanes, (lanes + 1) * order.samples // order.lanes


def _delivered_lanes(order: Order) -> Ints:
    """Return the lane whose samples each lane delivers.

    It is another lane where the lane wraps and is empty.
    """
    lanes = np.arange(order.lanes, dtype=np.int64)
    filled = np.flatnonzero(_lane_samples(order))
    if order.tail is not Tail.WRAP:
        return lanes
    return filled[np.searchsorted(filled, lanes) % len(filled)]


def _starts(order: Order, epoch: int) -> Ints:
    """Return where each block begins in C, and where the last ends."""
    counts = order.counts[order.counts > 0]
    if order.shuffle is Shuffle.BLOCKS:
        where = {"seed": order.seed, "epoch": epoch, "phase": order.phase}
        counts = counts[permutation(len(counts), purpose=Purpose.ORDER, **where)]
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def _turns(starts: Ints, first: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """Return the first block of each stretch of C, and one more than its last."""
    turn = np.searchsorted(starts, first, side="right") - 1
    return turn, np.where(first < stop, np.searchsorted(starts, stop, side="left"), turn)
