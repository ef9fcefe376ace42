"""Philox4x32-10: a block cipher that turns an address into four random words.

The generator has no state. A 128-bit counter and a 64-bit key give 128 random bits, so
any worker can compute any draw, in any order, and get the same one (Salmon et al.,
"Parallel random numbers: as easy as 1, 2, 3", 2011).
"""

from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

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

    The words of `key` must be below 2^32. The compiled core computes it where there is
    one, without the GIL; the words are the same.
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
    """Both key words of every round: shape (rounds, 2, 1)."""
    rounds = [
        [[(word + turn * step) & _MASK32] for word, step in zip(key, _KEY_STEPS, strict=True)]
        for turn in range(ROUNDS)
    ]
    return np.array(rounds, np.uint64)
