"""The address of a random draw, and the generator that turns an address into numbers.

A draw is addressed by what it is for and never by when it happens. The key is that of a
run, and the four counter words of one draw are

    0   id mod 2^32
    1   (id div 2^32) * 2^24 + block
    2   epoch
    3   (purpose + 16 * phase) * 2^24 + sub

No two fields share a bit, so different addresses can never meet.

The generator is Philox4x32-10, a block cipher without state. It turns a 128-bit counter
and a 64-bit key into four random words of 32 bits, so any worker can compute any draw,
in any order, and get the same one (Salmon et al., "Parallel random numbers: as easy as
1, 2, 3", 2011).
"""

from collections.abc import Collection
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PlanError
from dtsflow.native.core import load

Words = npt.NDArray[np.uint32]

ROUNDS: Final = 10
_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS: Final = (0x9E3779B9, 0xBB67AE85)
_MASK32: Final = 0xFFFFFFFF
_LOW: Final = np.uint64(_MASK32)
_HIGH: Final = np.uint64(32)
_SLAB: Final = 1 << 13  # counters at a time: the working arrays then stay in the L2 cache


def philox4x32(counters: Words, key: tuple[int, int]) -> Words:
    """Encrypt each counter with `key`: shape (..., 4) in, the same shape out.

    The words of `key` must be below 2^32. The compiled core computes it if it is there,
    without the GIL; the words are the same.
    """
    flat = np.ascontiguousarray(counters).reshape(-1, 4)
    out = np.empty_like(flat)
    if (core := load()) is not None:
        core.philox(flat, *key, out)
        return out.reshape(counters.shape)
    cuts = [*range(0, len(flat), _SLAB), len(flat)]
    for start, stop in pairwise(cuts):
        out[start:stop] = _encrypt(flat[start:stop], key)
    return out.reshape(counters.shape)


def _encrypt(counters: Words, key: tuple[int, int]) -> Words:
    # The two halves of a round differ only in multiplier and key word, so both run as
    # one array operation: `even` holds counter words 0 and 2, `odd` words 1 and 3. All
    # of it happens in three working arrays, since fresh ones would cost more than it.
    even = counters.T[0::2].astype(np.uint64, order="C")
    odd = counters.T[1::2].astype(np.uint64, order="C")
    products = np.empty_like(even)
    crossed = products[::-1]
    multipliers = np.array(_MULTIPLIERS, np.uint64)[:, None]
    for words in _schedule(key):
        np.multiply(even, multipliers, out=products)
        np.right_shift(crossed, _HIGH, out=even)
        even ^= odd
        even ^= words
        np.bitwise_and(crossed, _LOW, out=odd)
    out = np.empty(counters.shape, np.uint32)
    out[:, 0::2] = even.T
    out[:, 1::2] = odd.T
    return out


def _schedule(key: tuple[int, int]) -> npt.NDArray[np.uint64]:
    """Return both key words of every round: shape (rounds, 2, 1)."""
    rounds = [
        [[(word + turn * step) & _MASK32] for word, step in zip(key, _KEY_STEPS, strict=True)]
        for turn in range(ROUNDS)
    ]
    return np.array(rounds, np.uint64)


_BITS: Final = {
    "seed": 64,
    "id": 40,
    "block": 24,
    "sub": 24,
    "epoch": 32,
    "phase": 4,
    "view": 8,
    "position": 16,
    "source": 8,
    "lane": 16,
    "step": 32,
    "batch position": 8,
}
_FIXED_PHASES: Final = ("train", "val", "test")

Whole = int | npt.NDArray[np.integer]


PHASE = "train"  # without `phases`, a run has this one


class Purpose(Enum):
    """The use of a draw; its number is part of its address, so it never changes."""

    OPERATION = 1
    ORDER = 2
    WINDOW = 3
    BATCH = 4


def check_field(field: str, value: int) -> None:
    """Refuse a number that does not fit the address of a draw.

    Raises:
        PlanError: `value` is negative or has too many bits to be a `field`.
    """
    bits = _BITS[field]
    if not 0 <= value < 1 << bits:
        raise PlanError(
            f"{field} {value} is outside 0..{(1 << bits) - 1}: the address of a random "
            f"draw has {bits} bits for it. Keep the {field} in that range."
        )


def phase_number(name: str, others: Collection[str] = ()) -> int:
    """Give the phase `name` a number: train 0, val 1, test 2, others from 3 by name.

    `others` are the names of the run's other phases; `name` and the three fixed ones
    may be among them.

    Raises:
        PlanError: The run has more phases than an address can tell apart.
    """
    if name in _FIXED_PHASES:
        return _FIXED_PHASES.index(name)
    free = sorted({name, *others}.difference(_FIXED_PHASES))
    number = len(_FIXED_PHASES) + free.index(name)
    limit = 1 << _BITS["phase"]
    if number >= limit:
        raise PlanError(
            f"phase {name!r} would be number {number}, and numbers end at {limit - 1}: "
            f"beside train, val and test a run may have {limit - len(_FIXED_PHASES)} "
            f"phases, this one names {len(free)}. Remove some."
        )
    return number


def key(seed: int) -> tuple[int, int]:
    """Split a run's seed into the two words of the Philox key."""
    check_field("seed", seed)
    return seed & _MASK32, seed >> 32


@lru_cache(maxsize=64)  # every chunk of a pass asks for the same
def pass_words(seed: int, epoch: int, phase: int, view: int) -> tuple[int, int, int, int]:
    """Return what all operations' draws of one pass have in common, for the core.

    Returns:
        Both words of the key, and counter words 2 and 3 of the operation at position 0.

    Raises:
        PlanError: A field does not fit; see the module's table.
    """
    check_field("epoch", epoch)
    family = (Purpose.OPERATION.value + 16 * phase) << 24
    return *key(seed), epoch, family + operation_sub(view, 0)


def operation_sub(view: int, position: int) -> int:
    """Place an operation: its view, and its position in the chain as configured."""
    check_field("view", view)
    check_field("position", position)
    return (view << 16) + position


def window_sub(source: int, lane: int) -> int:
    """Place a window's shuffle: the source in the mix (0 without one) and the lane."""
    check_field("source", source)
    check_field("lane", lane)
    return (source << 16) + lane


def batch_id(step: int, view: int) -> int:
    """Give a batch its number, from the step of the epoch and the view."""
    check_field("step", step)
    check_field("view", view)
    return (step << 8) + view


def batch_sub(position: int, lane: int) -> int:
    """Place a batch operation: its position among them, and the lane."""
    check_field("batch position", position)
    check_field("lane", lane)
    return (position << 16) + lane


def counters(
    ids: Whole,
    *,
    block: Whole,
    epoch: int,
    purpose: Purpose,
    phase: int,
    sub: Whole,
) -> Words:
    """Lay out the counters of many draws; `ids`, `block` and `sub` broadcast.

    Returns:
        The broadcast shape with one more axis of four words.

    Raises:
        PlanError: A field does not fit; see the module's table.
    """
    check_field("epoch", epoch)
    check_field("phase", phase)
    id_words = _words("id", ids)
    block_words = _words("block", block)
    sub_words = _words("sub", sub)
    shape = np.broadcast_shapes(id_words.shape, block_words.shape, sub_words.shape)
    out = np.empty((*shape, 4), np.uint32)
    out[..., 0] = id_words & _MASK32
    out[..., 1] = ((id_words >> 32) << 24) + block_words
    out[..., 2] = epoch
    out[..., 3] = ((purpose.value + 16 * phase) << 24) + sub_words
    return out


def _words(field: str, values: Whole) -> npt.NDArray[np.uint64]:
    given = np.asarray(values)
    if given.size:
        check_field(field, int(given.min()))
        check_field(field, int(given.max()))
    return given.astype(np.uint64)
