"""The order of an epoch: which sample stands in which row of which global batch.

Pure arithmetic over the number of samples in each block; no file, no rank, no thread.
The definition, step by step, is in docs/design.md section 4:

1. block order P: identity, or a keyed permutation of the blocks that hold samples;
2. C = the samples of P[0], P[1], … concatenated;
3. lane l owns C[⌊lN/V⌋ : ⌊(l+1)N/V⌋];
4. a lane's blocks are cut into windows of 1, 2, 4, … up to K blocks, and the lane's
   samples of each window are permuted;
5. global batch g takes q = batch_size / V consecutive samples from each lane;
6. rank r of W owns the rows of V/W lanes.
"""

import math
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PlanError
from dtsflow.seed.address import Purpose, window_sub
from dtsflow.seed.permutation import permutation
from dtsflow.volume.format import BLOCK_BYTES

Ints = npt.NDArray[np.int64]

SHUFFLED_BYTES = 64  # a sample, at the peak of permuting all: address, words, key, place
MAX_AUTO_LANES = 16  # design.md section 4: a fixed number, so that no rank count enters


class Shuffle(Enum):
    """How far samples travel from where they are stored."""

    NONE = "none"
    BLOCKS = "blocks"
    FULL = "full"


class Tail(Enum):
    """What becomes of the samples that do not fill a last batch."""

    PAD = "pad"
    DROP = "drop"
    WRAP = "wrap"


def divisors(number: int) -> list[int]:
    """All divisors of `number`, ascending."""
    low = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return low + [number // d for d in reversed(low) if d * d != number]


def auto_lanes(batch_size: int) -> int:
    """The largest divisor of the global batch that is at most 16."""
    return max(lanes for lanes in range(1, MAX_AUTO_LANES + 1) if batch_size % lanes == 0)


def window_blocks(window_bytes: int, lanes: int) -> int:
    """K: blocks in a full window of one lane; all lanes share `window_bytes`."""
    return max(1, window_bytes // (lanes * BLOCK_BYTES))


@dataclass(frozen=True, eq=False)
class Order:
    """The order of one phase, for every epoch.

    Attributes:
        counts: Samples in each block, in volume order; empty blocks are allowed.
        batch_size: Rows of a global batch, GB.
        lanes: Canonical shards, V; divides `batch_size`.
        window: Blocks in a full window of one lane, K.
        phase: The phase's number, part of every random address.

    Raises:
        PlanError: No samples, no steps, or lanes that do not divide the batch.
    """

    counts: Ints
    batch_size: int
    lanes: int
    seed: int
    shuffle: Shuffle = Shuffle.BLOCKS
    tail: Tail = Tail.PAD
    window: int = 1
    phase: int = 0

    def __post_init__(self) -> None:
        if self.batch_size % self.lanes:
            valid = [v for v in divisors(self.batch_size) if v < 1 << 16]
            raise PlanError(
                f"lanes={self.lanes} does not divide batch_size={self.batch_size}. "
                f"Lanes that do: {', '.join(map(str, valid[:20]))}."
            )
        if self.samples == 0:
            raise PlanError("The data set holds no samples, so there is no batch to make.")
        if self.steps == 0:
            raise PlanError(
                f"tail=drop leaves no batch: {self.samples} samples are fewer than "
                f"batch_size={self.batch_size}. Use tail=pad or a smaller batch_size."
            )

    @cached_property
    def samples(self) -> int:
        """N: all samples."""
        return int(self.counts.sum())

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
        """The slice of C that `lane` owns."""
        return lane * self.samples // self.lanes, (lane + 1) * self.samples // self.lanes

    def lanes_of(self, rank: int, size: int) -> range:
        """The lanes of rank `rank` of `size`.

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
        """Bytes that the order of an epoch takes; only `full` keeps any."""
        return SHUFFLED_BYTES * self.samples if self.shuffle is Shuffle.FULL else 0

    @cached_property
    def first_ids(self) -> Ints:
        """The sample_id of each block's first sample."""
        return np.concatenate(([0], np.cumsum(self.counts)[:-1])).astype(np.int64)

    def epoch(self, epoch: int) -> "EpochOrder":
        """The order of one epoch."""
        return EpochOrder(self, epoch)


def _lanes_for(size: int, batch_size: int) -> str:
    """The number of lanes to ask for so that `size` ranks can run, or why none can."""
    fitting = [v for v in divisors(batch_size) if v % size == 0]
    if not fitting:
        return f" batch_size={batch_size} is no multiple of {size}: choose one that is."
    near = [v for v in fitting if v >= MAX_AUTO_LANES] or fitting
    return f" For {size} ranks use lanes={min(near)}, which changes the order."


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the samples of consecutive rows come from; arrays of one entry a row.

    Attributes:
        ids: sample_id, -1 in a missing row.
        blocks: Block of the data set, in volume order; 0 in a missing row.
        places: Index of the sample within its block; 0 in a missing row.
        valid: Whether the row holds a sample.
        lanes: The lane that fills the row.
        numbers: Which of the lane's rows it is, counted through the epoch.
    """

    ids: Ints
    blocks: Ints
    places: Ints
    valid: npt.NDArray[np.bool_]
    lanes: Ints
    numbers: Ints

    def __getitem__(self, rows: slice) -> "Rows":
        return self._taken(rows)

    def __len__(self) -> int:
        return len(self.ids)

    def only(self, rows: Ints) -> "Rows":
        """The rows at these places alone."""
        return self._taken(rows)

    def _taken(self, rows: slice | Ints) -> "Rows":
        return Rows(
            self.ids[rows],
            self.blocks[rows],
            self.places[rows],
            self.valid[rows],
            self.lanes[rows],
            self.numbers[rows],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Leg:
    """A stretch of a lane's rows whose samples lie in a few blocks, one window of them.

    Attributes:
        lane: The lane.
        first: The number of its first row in the lane.
        last: One more than the number of its last.
        blocks: Blocks of the data set, in this epoch's order.
    """

    lane: int
    first: int
    last: int
    blocks: Ints


class EpochOrder:
    """The order of one epoch of one phase; every answer is computed in closed form."""

    def __init__(self, order: Order, epoch: int) -> None:
        self._order = order
        self._epoch = epoch
        self._lanes: dict[int, _Lane] = {}

    @property
    def steps(self) -> int:
        """Global batches of the epoch."""
        return self._order.steps

    @cached_property
    def _blocks(self) -> Ints:
        """P: the blocks that hold samples, in this epoch's order."""
        order = self._order
        filled = np.flatnonzero(order.counts)
        if order.shuffle is Shuffle.BLOCKS:
            return filled[self._permutation(len(filled))]
        return filled

    @cached_property
    def _starts(self) -> Ints:
        """Where each block of P begins in C; one entry more, the end."""
        return np.concatenate(([0], np.cumsum(self._order.counts[self._blocks]))).astype(np.int64)

    @cached_property
    def _full(self) -> Ints:
        """C itself, as volume positions, when single samples are permuted."""
        return self._permutation(self._order.samples)

    def _permutation(self, length: int) -> Ints:
        return permutation(
            length,
            seed=self._order.seed,
            epoch=self._epoch,
            purpose=Purpose.ORDER,
            phase=self._order.phase,
        )

    def rows(self, first_step: int, steps: int, lanes: range) -> Rows:
        """The rows of `steps` global batches from `first_step` on, of some lanes only.

        Rows come step by step, inside a step lane by lane.
        """
        q = self._order.lane_rows
        numbers = np.arange(first_step * q, (first_step + steps) * q, dtype=np.int64)
        places = np.empty((steps, len(lanes), q), np.int64)
        for column, lane in enumerate(lanes):
            places[:, column, :] = self._lane_positions(lane, numbers).reshape(steps, q)
        lane_of = np.broadcast_to(np.fromiter(lanes, np.int64)[:, None], (len(lanes), q))
        return self._locate(
            places.reshape(-1),
            np.tile(lane_of.reshape(-1), steps),
            np.repeat(numbers.reshape(steps, 1, q), len(lanes), axis=1).reshape(-1),
        )

    def legs(self, steps: range, lane: int) -> list[Leg]:
        """The windows that a lane's rows of `steps` come from, in their order.

        A lane that wraps comes to its windows again.

        Raises:
            PlanError: Single samples are permuted, so there are no windows.
        """
        order = self._order
        if order.shuffle is Shuffle.FULL:
            raise PlanError("shuffle=full takes samples from everywhere: there are no windows.")
        source = self._source(lane)
        start, stop = order.lane_bounds(source)
        first, last = steps.start * order.lane_rows, steps.stop * order.lane_rows
        if order.tail is not Tail.WRAP:
            last = min(last, stop - start)
        cuts, windows = self._lane(source).cuts, self._lane(source).windows()
        found: list[Leg] = []
        while first < last:
            turn = first // (stop - start)  # 0 but where it wraps
            inside = first - turn * (stop - start)
            window = int(np.searchsorted(cuts, inside, side="right")) - 1
            end = min(last, turn * (stop - start) + int(cuts[window + 1]))
            found.append(Leg(lane, first, end, self._blocks[windows[window][1]]))
            first = end
        return found

    def _lane_positions(self, lane: int, numbers: Ints) -> Ints:
        """Positions in C of a lane's sample numbers; -1 where the lane has run out."""
        order = self._order
        lane = self._source(lane)
        start, stop = order.lane_bounds(lane)
        if order.tail is Tail.WRAP:
            numbers = numbers % (stop - start)
        inside = numbers < stop - start
        found = np.full(len(numbers), -1, np.int64)
        if order.shuffle is Shuffle.BLOCKS:
            found[inside] = self._lane(lane).positions(numbers[inside])
        else:
            found[inside] = start + numbers[inside]
        return found

    def _source(self, lane: int) -> int:
        """The lane that `lane` delivers: another one where it wraps and is empty."""
        start, stop = self._order.lane_bounds(lane)
        while self._order.tail is Tail.WRAP and start == stop:
            lane = (lane + 1) % self._order.lanes
            start, stop = self._order.lane_bounds(lane)
        return lane

    def _locate(self, positions: Ints, lanes: Ints, numbers: Ints) -> Rows:
        order = self._order
        valid = positions >= 0
        position = np.where(valid, positions, 0)
        if order.shuffle is Shuffle.FULL:
            ids = self._full[position]
            blocks = np.searchsorted(order.first_ids + order.counts, ids, side="right")
            places = ids - order.first_ids[blocks]
        else:
            turn = np.searchsorted(self._starts, position, side="right") - 1
            blocks = self._blocks[turn]
            places = position - self._starts[turn]
            ids = order.first_ids[blocks] + places
        return Rows(
            ids=np.where(valid, ids, -1),
            blocks=np.where(valid, blocks, 0),
            places=np.where(valid, places, 0),
            valid=valid,
            lanes=lanes,
            numbers=numbers,
        )

    def _lane(self, lane: int) -> "_Lane":
        if lane not in self._lanes:
            self._lanes[lane] = _Lane(self._order, self._epoch, lane, self._starts)
        return self._lanes[lane]

    def delivery(self, lanes: range, first_step: int = 0) -> Ints:
        """The blocks that `lanes` need from a step on, each once, in order of need."""
        order = self._order
        if order.shuffle is Shuffle.FULL:
            return np.flatnonzero(order.counts)
        steps = range(first_step, order.steps)
        legs = [leg for lane in lanes for leg in self.legs(steps, lane)]
        legs.sort(key=lambda leg: (leg.first, leg.lane))
        blocks = dict.fromkeys(block for leg in legs for block in leg.blocks.tolist())
        return np.fromiter(blocks, np.int64, len(blocks))


def turns_between(starts: Ints, start: int, stop: int) -> range:
    """The places in P of the blocks that hold a sample of C[start:stop]."""
    if start == stop:
        return range(0)
    first = int(np.searchsorted(starts, start, side="right")) - 1
    last = int(np.searchsorted(starts, stop, side="left"))
    return range(first, last)


class _Lane:
    """One lane of one epoch, with its samples permuted window by window."""

    def __init__(self, order: Order, epoch: int, lane: int, starts: Ints) -> None:
        self._order, self._epoch, self._number = order, epoch, lane
        self._start, stop = order.lane_bounds(lane)
        self._turns = turns_between(starts, self._start, stop)
        sizes = window_sizes(len(self._turns), order.window)
        self._first_turns = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        inner = starts[self._turns.start + self._first_turns[1:-1]] - self._start
        self.cuts = np.concatenate(([0], inner, [stop - self._start])).astype(np.int64)
        self._last: tuple[int, Ints] = (-1, np.empty(0, np.int64))

    def windows(self) -> list[tuple[int, range]]:
        """For each window: its first sample's number in the lane, its turns in P."""
        return [
            (int(cut), self._turns[int(first) : int(last)])
            for cut, first, last in zip(
                self.cuts, self._first_turns, self._first_turns[1:], strict=False
            )
        ]

    def positions(self, numbers: Ints) -> Ints:
        """Positions in C of the lane's samples with these numbers."""
        found = np.empty(len(numbers), np.int64)
        window = np.searchsorted(self.cuts, numbers, side="right") - 1
        edges = np.flatnonzero(np.diff(window)) + 1
        for part in np.split(np.arange(len(numbers)), edges):
            if len(part):
                number = int(window[part[0]])
                inside = numbers[part] - self.cuts[number]
                found[part] = self._start + self.cuts[number] + self._shuffled(number)[inside]
        return found

    def _shuffled(self, window: int) -> Ints:
        """The permutation of one window; the last one asked for is kept."""
        kept, shuffled = self._last  # one tuple, so that a racing thread sees a matching pair
        if kept == window:
            return shuffled
        shuffled = permutation(
            int(self.cuts[window + 1] - self.cuts[window]),
            seed=self._order.seed,
            epoch=self._epoch,
            purpose=Purpose.WINDOW,
            phase=self._order.phase,
            block=window,
            sub=window_sub(0, self._number),
        )
        self._last = (window, shuffled)
        return shuffled


def window_sizes(blocks: int, largest: int) -> list[int]:
    """Cut `blocks` into 1, 2, 4, … up to `largest`: a first batch needs one block."""
    sizes: list[int] = []
    size = 1
    while blocks:
        sizes.append(min(size, blocks))
        blocks -= sizes[-1]
        size = min(2 * size, largest)
    return sizes
