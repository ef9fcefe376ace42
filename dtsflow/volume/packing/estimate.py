"""What a pack would come to, from its listing and a few images."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from dtsflow.volume.format import BLOCK_BYTES, BLOCK_ROOM, aligned
from dtsflow.volume.packing.cutting import most_images
from dtsflow.volume.packing.prepare import Candidate, Prepared, Preparer, prepare_in_order
from dtsflow.volume.packing.shares import Share

_TRIED = 32  # images


@dataclass(frozen=True, slots=True)
class Expected:
    """What the volumes will take; exact where the sizes are known.

    `seconds` are those of reading and encoding, without writing.
    """

    blocks: int
    bytes: int
    seconds: float
    is_exact: bool


def known_bytes(shares: Sequence[Share]) -> int | None:
    """What the volumes take, where all sizes are known."""
    if any(share.counts is None for share in shares):
        return None
    return sum(1 + len(share.counts or ()) for share in shares) * BLOCK_BYTES


def expect(
    shares: Sequence[Share], preparer: Preparer, pool: ThreadPoolExecutor, level: int
) -> Expected:
    """Prepare a few images of all shares, and reckon from them to the whole."""
    candidates = [one for share in shares for one in share.candidates]
    tried = _spread(candidates)
    begun = time.perf_counter()
    sizes = [
        aligned(len(one.encoded.data))
        for one in prepare_in_order(preparer, tried, pool)
        if isinstance(one, Prepared)
    ]
    seconds = (time.perf_counter() - begun) * len(candidates) / max(1, len(tried))
    known = known_bytes(shares)
    if known is not None:
        return Expected(known // BLOCK_BYTES - len(shares), known, seconds, is_exact=True)
    mean = sum(sizes) / max(1, len(sizes))
    blocks = sum(_blocks(len(share.candidates), mean, level) for share in shares)
    return Expected(blocks, (len(shares) + blocks) * BLOCK_BYTES, seconds, is_exact=False)


def _blocks(images: int, mean: float, level: int) -> int:
    by_bytes = int(images * mean) // BLOCK_ROOM[level] + 1
    return max(by_bytes, -(-images // most_images(level, upstream=False)))


def _spread(candidates: Sequence[Candidate]) -> list[Candidate]:
    step = max(1, len(candidates) // _TRIED)
    return list(candidates[::step][:_TRIED])
