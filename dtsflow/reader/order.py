"""The order of an epoch: which sample stands in which row of which global batch.

Pure arithmetic over the number of samples in each block; no file, no rank, no thread.
The definition, step by step, is in docs/design.md section 4:

1. block order P: identity, or a keyed permutation of the blocks that hold samples;
2. C = the samples of P[0], P[1], … concatenated; in a mix each source has P and C of
   its own, and the epoch's C takes from them in turn (`merging.py`);
3. lane l owns C[⌊lN/V⌋ : ⌊(l+1)N/V⌋];
4. a lane's blocks of a source are cut into windows of 1, 2, 4, … up to K blocks, and
   the lane's samples of each window are permuted (`windows.py`);
5. global batch g takes q = batch_size / V consecutive samples from each lane;
6. rank r of W owns the rows of V/W lanes.

Epochs of one group share steps 1 to 3, those of its first epoch, and so their lanes
have the same samples; only step 4 tells them apart.
"""

import math
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PlanError
from dtsflow.reader.interleave import InProportion, Merging, MixSpec
from dtsflow.reader.lanes import LaneOrder, Leg, Located, Permute, SourceOrder, Windows
from dtsflow.seed.address import Purpose, check_field, window_sub
from dtsflow.seed.draws import permutation
from dtsflow.volume.format.header import BLOCK_BYTES

Ints = npt.NDArray[np.int64]

SHUFFLED_BYTES = 64  # a sample, at the peak of permuting all: address, words, key, place
GROUPED_BYTES = 16  # a sample, where lanes are permuted besides: its place, and a word
MAX_AUTO_LANES = 16  # design.md section 4: a fixed number, so that no rank count enters


class Shuffle(Enum):
    """The distance that samples travel from where they are stored."""

    NONE = "none"
    WINDOWS = "windows"
    BLOCKS = "blocks"
    FULL = "full"

    @property
    def has_windows(self) -> bool:
        """Tell whether the samples of each window are permuted."""
        return self in (Shuffle.WINDOWS, Shuffle.BLOCKS)


class Tail(Enum):
    """The treatment of the samples that do not fill a last batch."""

    PAD = "pad"
    DROP = "drop"
    WRAP = "wrap"


def divisors(number: int) -> list[int]:
    """Return all divisors of `number`, ascending."""
    low = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return low + [number // d for d in reversed(low) if d * d != number]


def auto_lanes(batch_size: int) -> int:
    """Return the largest divisor of the global batch that is at most 16."""
    return max(lanes for lanes in range(1, MAX_AUTO_LANES + 1) if batch_size % lanes == 0)


def window_blocks(window_bytes: int, lanes: int, sources: int = 1) -> int:
    """K: blocks in a full window; all lanes and sources share `window_bytes`."""
    return max(1, window_bytes // (lanes * sources * BLOCK_BYTES))


@dataclass(frozen=True, eq=False)
class Order:
    """The order of one phase, for every epoch.

    Attributes:
        counts: Samples in each block, in volume order; empty blocks are allowed.
        batch_size: Rows of a global batch, GB.
        lanes: Canonical shards, V; divides `batch_size`.
        window: Blocks in a full window of one lane and source, K.
        phase: The phase's number, part of every random address.
        mixing: How several sources are made one; None: there is one.
        group: Epochs that share their lanes: those with equal ⌊epoch / group⌋. Where
            single samples are permuted, each lane's run of a source is then one window.

    Raises:
        PlanError: No samples, no steps, lanes that do not divide the batch, or a source
            in the mix of which more windows are needed than an address has room for.
    """

    counts: Ints
    batch_size: int
    lanes: int
    seed: int
    shuffle: Shuffle = Shuffle.BLOCKS
    tail: Tail = Tail.PAD
    window: int = 1
    phase: int = 0
    mixing: MixSpec | None = None
    group: int = 1

    def __post_init__(self) -> None:
        if self.batch_size % self.lanes:
            valid = [v for v in divisors(self.batch_size) if v < 1 << 16]
            raise PlanError(
                f"lanes={self.lanes} does not divide batch_size={self.batch_size}. "
                f"Lanes that do: {', '.join(map(str, valid[:20]))}."
            )
        if not self.counts.any():
            raise PlanError("The data set holds no samples, so there is no batch to make.")
        if self.steps == 0:
            raise PlanError(
                f"tail=drop leaves no batch: {self.samples} samples are fewer than "
                f"batch_size={self.batch_size}. Use tail=pad or a smaller batch_size."
            )
        check_field("source", len(self.sources) - 1)
        for own, rounds in zip(self.sources, self.rounds_of_sources, strict=True):
            check_field("block", len(own) * rounds)  # more than its windows of any lane

    @cached_property
    def sources(self) -> tuple[range, ...]:
        """Return the blocks of each source."""
        if self.mixing is None:
            return (range(len(self.counts)),)
        assert sum(self.mixing.blocks) == len(self.counts)
        ends = accumulate(self.mixing.blocks, initial=0)
        return tuple(range(first, last) for first, last in pairwise(ends))

    @cached_property
    def merging(self) -> Merging:
        """Return the turns that the sources take."""
        if self.mixing is None:
            return InProportion(self._sizes)
        return self.mixing.merging(self._sizes)

    @cached_property
    def samples(self) -> int:
        """N: samples of an epoch; those of a source that comes again count again."""
        return self.merging.samples

    @property
    def rounds(self) -> int:
        """Return how often a source is begun in an epoch, at the most."""
        return max(self.rounds_of_sources)

    @cached_property
    def longest_runs(self) -> list[int]:
        """Return the most samples of each source that any lane has."""
        before = np.array(
            [self.merging.before(lane * self.samples // self.lanes) for lane in range(self.lanes)]
            + [self.merging.before(self.samples)]
        )
        most: list[int] = np.diff(before, axis=0).max(axis=0).tolist()
        return most

    @cached_property
    def rounds_of_sources(self) -> list[int]:
        """Return how often each source is begun in an epoch."""
        taken = self.merging.before(self.samples)
        return [-(-count // max(1, size)) for count, size in zip(taken, self._sizes, strict=True)]

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        """Return the samples of each source."""
        return tuple(int(self.counts[own.start : own.stop].sum()) for own in self.sources)

    @property
    def steps(self) -> int:
        """Global batches in an epoch, the same on every rank."""
        whole, rest = divmod(self.samples, self.batch_size)
        return whole + (rest > 0 and self.tail is not Tail.DROP)

    @property
    def lane_rows(self) -> int:
        """q: the rows that one lane fills in each global batch."""
        return self.batch_size // self.lanes

    def lane_bounds(self, lane: int) -> tuple[int, int]:
        """Return the slice of C that `lane` owns."""
        return lane * self.samples // self.lanes, (lane + 1) * self.samples // self.lanes

    def lanes_of(self, rank: int, size: int) -> range:
        """Return the lanes of rank `rank` of `size`.

        Raises:
            PlanError: `size` does not divide the lanes; the message names sizes that
                do, and a number of lanes that `size` does divide.
        """
        if self.lanes % size:
            allowed = divisors(self.lanes)
            raise PlanError(
                f"{size} ranks cannot share {self.lanes} lanes evenly. With lanes={self.lanes} "
                f"these numbers of ranks can: {', '.join(map(str, allowed))}."
                f"{_lanes_for(size, self.batch_size)}"
            )
        share = self.lanes // size
        return range(rank * share, (rank + 1) * share)

    @property
    def planned_bytes(self) -> int:
        """Return the bytes that the order of an epoch takes; only `full` keeps any."""
        if self.shuffle is not Shuffle.FULL:
            return 0
        return (SHUFFLED_BYTES + GROUPED_BYTES * (self.group > 1)) * int(self.counts.sum())

    @cached_property
    def first_ids(self) -> Ints:
        """Return the sample_id of each block's first sample."""
        return np.concatenate(([0], np.cumsum(self.counts)[:-1])).astype(np.int64)

    def epoch(self, epoch: int) -> "EpochOrder":
        """Return the order of one epoch."""
        return EpochOrder(self, epoch)


def _lanes_for(size: int, batch_size: int) -> str:
    """Return the lanes to ask for so that `size` ranks can run, or why none can."""
    fitting = [v for v in divisors(batch_size) if v % size == 0]
    if not fitting:
        return f" batch_size={batch_size} is no multiple of {size}: choose one that is."
    near = [v for v in fitting if v >= MAX_AUTO_LANES] or fitting
    return f" For {size} ranks use lanes={min(near)}, which changes the order."


@dataclass(frozen=True, slots=True)
class Rows:
    """The origins of the samples of consecutive rows; arrays of one entry a row.

    Attributes:
        ids: sample_id, -1 in a missing row.
        blocks: Block of the data set, in volume order; 0 in a missing row.
        places: Index of the sample within its block; 0 in a missing row.
        valid: Whether the row holds a sample.
        lanes: The lane that fills the row.
        numbers: Which of the lane's rows of this source it is, counted through the
            epoch.
        sources: The source in the mix; None where there is one.
        repeats: How often its source has delivered the sample before; None where none
            comes again.
        positions: The place of the sample in its source's C, -1 in a missing row.
    """

    ids: Ints
    blocks: Ints
    places: Ints
    valid: npt.NDArray[np.bool_]
    lanes: Ints
    numbers: Ints
    sources: Ints | None = None
    repeats: Ints | None = None
    positions: Ints | None = None

    def __getitem__(self, rows: slice) -> "Rows":
        return self._taken(rows)

    def __len__(self) -> int:
        return len(self.ids)

    def only(self, rows: Ints) -> "Rows":
        """Return the rows at these places alone."""
        return self._taken(rows)

    def draw_ids(self, stored: int) -> Ints | None:
        """Return what addresses each row's draws, of a data set of `stored` samples.

        None where it is the sample_id of all; a sample that comes again has another.
        """
        return None if self.repeats is None else self.ids + self.repeats * stored

    def _taken(self, rows: slice | Ints) -> "Rows":
        return Rows(
            self.ids[rows],
            self.blocks[rows],
            self.places[rows],
            self.valid[rows],
            self.lanes[rows],
            self.numbers[rows],
            None if self.sources is None else self.sources[rows],
            None if self.repeats is None else self.repeats[rows],
            None if self.positions is None else self.positions[rows],
        )


class EpochOrder:
    """The order of one epoch of one phase; every answer is computed in closed form."""

    def __init__(self, order: Order, epoch: int) -> None:
        self._order = order
        self._epoch = epoch
        self._first = epoch // order.group * order.group  # of its group
        self._lanes: dict[int, LaneOrder] = {}

    @property
    def steps(self) -> int:
        """Global batches of the epoch."""
        return self._order.steps

    @property
    def lane_rows(self) -> int:
        """q: the rows that one lane fills in each global batch."""
        return self._order.lane_rows

    def rows(self, first_step: int, steps: int, lanes: range) -> Rows:
        """Return the rows of `steps` batches from `first_step` on, of some lanes.

        Rows come step by step, inside a step lane by lane.
        """
        q = self._order.lane_rows
        numbers = np.arange(first_step * q, (first_step + steps) * q, dtype=np.int64)
        found = np.empty((3, steps, len(lanes), q), np.int64)
        for column, lane in enumerate(lanes):
            for values, own in zip(found, self._lane(lane).rows(numbers), strict=True):
                values[:, column, :] = own.reshape(steps, q)
        sources, own_numbers, positions = found.reshape(3, -1)
        lane_of = np.repeat(np.fromiter(lanes, np.int64), q)
        return self._locate(sources, positions, np.tile(lane_of, steps), own_numbers)

    def legs(self, steps: range, lane: int) -> list[Leg]:
        """Return the windows that a lane's rows of `steps` come from, source by source.

        Those of a source come in their order. A lane that wraps comes to its windows
        again.

        Raises:
            PlanError: Single samples are permuted, so windows do not exist.
        """
        order = self._order
        if order.shuffle is Shuffle.FULL:
            raise PlanError("shuffle=full takes samples from everywhere: there are no windows.")
        rows = range(steps.start * order.lane_rows, steps.stop * order.lane_rows)
        return list(self._lane(lane).legs(rows, lane))

    def delivery(self, lanes: range, first_step: int = 0) -> Ints:
        """Return the blocks `lanes` need from a step on, once, in order of need."""
        order = self._order
        if order.shuffle is Shuffle.FULL:
            return np.flatnonzero(order.counts)
        steps = range(first_step, order.steps)
        legs = [leg for lane in lanes for leg in self.legs(steps, lane)]
        legs.sort(key=lambda leg: (leg.row, leg.lane))
        blocks = dict.fromkeys(block for leg in legs for block in leg.blocks.tolist())
        return np.fromiter(blocks, np.int64, len(blocks))

    @cached_property
    def _sources(self) -> list[SourceOrder]:
        """Return each source with its samples in this epoch's order."""
        order, found = self._order, []
        for number, own in enumerate(order.sources):
            counts = order.counts[own.start : own.stop]
            blocks, shuffled = np.flatnonzero(counts), None
            if order.shuffle is Shuffle.BLOCKS:
                blocks = blocks[self._permutation(len(blocks), number)]
            elif order.shuffle is Shuffle.FULL:
                shuffled = self._permutation(int(counts.sum()), number)
            first_id = int(order.first_ids[own.start]) if own else 0
            found.append(SourceOrder(counts, own.start, first_id, blocks, shuffled))
        return found

    def _permutation(self, length: int, source: int) -> Ints:
        order = self._order
        where = {"seed": order.seed, "epoch": self._first, "phase": order.phase}
        return permutation(length, purpose=Purpose.ORDER, sub=source, **where)

    def _lane(self, lane: int) -> LaneOrder:
        lane = self._delivered(lane)
        if lane not in self._lanes:
            self._lanes[lane] = self._lane_order(lane)
        return self._lanes[lane]

    def _delivered(self, lane: int) -> int:
        """Return the lane that `lane` delivers.

        It is another lane where the lane wraps and is empty.
        """
        start, stop = self._order.lane_bounds(lane)
        while self._order.tail is Tail.WRAP and start == stop:
            lane = (lane + 1) % self._order.lanes
            start, stop = self._order.lane_bounds(lane)
        return lane

    def _lane_order(self, lane: int) -> LaneOrder:
        order = self._order
        first, last = order.lane_bounds(lane)
        ends = zip(order.merging.before(first), order.merging.before(last), strict=True)
        whole = order.shuffle is Shuffle.FULL
        runs = [
            Windows(source, *run, order.window, self._window_permutation(number, lane), whole=whole)
            for number, (source, run) in enumerate(zip(self._sources, ends, strict=True))
        ]
        wraps = order.tail is Tail.WRAP
        return LaneOrder((first, last), order.merging, runs, wraps=wraps)

    def _window_permutation(self, source: int, lane: int) -> Permute | None:
        order, epoch = self._order, self._epoch
        if not (order.shuffle.has_windows or self._is_regrouped):
            return None
        where = {"seed": order.seed, "epoch": epoch, "phase": order.phase}
        sub = window_sub(source, lane)

        def permute(window: int, samples: int) -> Ints:
            return permutation(samples, purpose=Purpose.WINDOW, block=window, sub=sub, **where)

        return permute

    @property
    def _is_regrouped(self) -> bool:
        """Tell whether `full` permutes for the group and again for the epoch."""
        return self._order.shuffle is Shuffle.FULL and self._order.group > 1

    def _locate(self, sources: Ints, positions: Ints, lanes: Ints, numbers: Ints) -> Rows:
        order, valid = self._order, positions >= 0
        located = Located(*np.zeros((4, len(positions)), np.int64))
        located.ids[~valid] = -1
        for number, source in enumerate(self._sources):
            own = np.flatnonzero(valid & (sources == number))
            for values, found in zip(located, source.locate(positions[own]), strict=True):
                values[own] = found
        return Rows(
            ids=located.ids,
            blocks=located.blocks,
            places=located.places,
            valid=valid,
            lanes=lanes,
            numbers=numbers,
            sources=None if len(self._sources) == 1 else sources,
            repeats=None if order.rounds == 1 else located.repeats,
            positions=positions,
        )
