"""The random numbers of one operation for a chunk of samples, and keyed permutations.

A permutation is a shuffle that is a function of its address.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PlanError
from dtsflow.seed.address import (
    Purpose,
    Words,
    batch_id,
    batch_sub,
    counters,
    key,
    operation_sub,
    philox4x32,
)


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """A fixed number of draws for each of n samples: `words` has shape (n, draws).

    Draws are numbered, not consumed: asking twice for number k gives the same values,
    and a retry must use a number of its own.
    """

    words: Words

    def __len__(self) -> int:
        return len(self.words)

    def uniform(self, k: int | npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """Draw number `k` as floats in [0, 1), multiples of 2^-24; shape (n,).

        With m numbers `k` the result has all of them, shape (n, m).
        """
        return (self.words[:, k] >> 8).astype(np.float64) * 2.0**-24

    def integers(
        self, k: int | npt.NDArray[np.integer], bound: int | npt.NDArray[np.integer]
    ) -> npt.NDArray[np.int64]:
        """Draw number `k` as whole numbers in [0, bound); shape (n,).

        `k` and `bound` are one number or one for each sample; bounds from 1 to 2^32.

        Raises:
            PlanError: A bound is outside that range.
        """
        bounds = np.asarray(bound)
        if bounds.size and not (bounds.min() >= 1 and bounds.max() <= 1 << 32):
            raise PlanError(
                f"draw {k}: whole numbers below {bounds.min()}..{bounds.max()} were asked "
                f"for, and a bound must lie in 1..{1 << 32}. The operation computed an "
                "empty range; its draw() must keep it from being empty."
            )
        words = self.words[np.arange(len(self)), k]
        products = words.astype(np.uint64) * bounds.astype(np.uint64)
        found: npt.NDArray[np.int64] = (products >> 32).astype(np.int64)
        return found


def operation_draws(
    *,
    seed: int,
    ids: npt.NDArray[np.int64],
    epoch: int,
    phase: int,
    view: int,
    words: Sequence[int],
) -> list[Draws]:
    """Draw for a whole chain of operations with one Philox call.

    Position p of the chain gets `words[p]` draws for each of `ids`; draw k is word
    k mod 4 of block k div 4, so an operation that asks for more keeps the ones it had.

    Raises:
        PlanError: An id, the epoch, the view or a position does not fit an address.
    """
    layout = _layout(tuple(words), view)
    addresses = counters(
        ids[:, None],
        block=layout.block,
        epoch=epoch,
        purpose=Purpose.OPERATION,
        phase=phase,
        sub=layout.sub,
    )
    drawn = philox4x32(addresses, key(seed)).reshape(len(ids), 4 * len(layout.block))
    return [Draws(drawn[:, columns]) for columns in layout.columns]


def batch_draws(  # noqa: PLR0913  # one argument for each field of an address
    *,
    seed: int,
    step: int,
    epoch: int,
    phase: int,
    lanes: npt.NDArray[np.int64],
    words: int,
    position: int = 0,
    view: int = 0,
) -> Draws:
    """Draw for one operation on a whole batch: `words` for each of `lanes`.

    Raises:
        PlanError: A number does not fit an address.
    """
    addresses = counters(
        batch_id(step, view),
        block=np.arange(-(-words // 4)),
        epoch=epoch,
        purpose=Purpose.BATCH,
        phase=phase,
        sub=np.array([[batch_sub(position, int(lane))] for lane in lanes], np.int64),
    )
    return Draws(philox4x32(addresses, key(seed)).reshape(len(lanes), -1)[:, :words])


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """The owner of each word of a sample: block and sub of each counter, columns."""

    block: npt.NDArray[np.int64]
    sub: npt.NDArray[np.int64]
    columns: tuple[slice, ...]


@lru_cache(maxsize=64)  # a chain asks for the same with every chunk
def _layout(words: tuple[int, ...], view: int) -> _Layout:
    blocks = [-(-count // 4) for count in words]
    starts = [4 * sum(blocks[:position]) for position in range(len(words))]
    subs = [operation_sub(view, position) for position in range(len(words))]
    return _Layout(
        block=np.array([index for count in blocks for index in range(count)], np.int64),
        sub=np.repeat(np.array(subs, np.int64), blocks),
        columns=tuple(
            slice(start, start + count) for start, count in zip(starts, words, strict=True)
        ),
    )


def permutation(  # noqa: PLR0913  # one argument for each field of an address
    n: int,
    *,
    seed: int,
    epoch: int,
    purpose: Purpose,
    phase: int = 0,
    block: int = 0,
    sub: int = 0,
) -> npt.NDArray[np.int64]:
    """Shuffle 0..n-1 by the address: entry i of the result is what comes i-th.

    Each element draws a 64-bit sort key under its own number as id. The sort is stable,
    so equal keys keep their order and the result does not depend on the sort algorithm.

    Raises:
        PlanError: A field of the address does not fit.
    """
    elements = np.arange(n, dtype=np.int64)
    addresses = counters(elements, block=block, epoch=epoch, purpose=purpose, phase=phase, sub=sub)
    words = philox4x32(addresses, key(seed))
    sort_keys = (words[:, 0].astype(np.uint64) << 32) + words[:, 1]
    return np.argsort(sort_keys, kind="stable").astype(np.int64, copy=False)
