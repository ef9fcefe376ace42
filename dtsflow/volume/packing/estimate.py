"""The expected size and time of a pack, and the facts that its ranks must share.

The estimate is made from the listing and a few images. Each fact that ranks must have
alike is in words or a digest.
"""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

from dtsflow.volume.format.header import BLOCK_BYTES, BLOCK_ROOM, aligned
from dtsflow.volume.packing.arrange import Share, image_facts, most_images, recorded_options
from dtsflow.volume.packing.gather import Gathered
from dtsflow.volume.packing.options import Packing
from dtsflow.volume.packing.prepare import Candidate, Prepared, Preparer, prepare_in_order

_TRIED = 32  # images


@dataclass(frozen=True, slots=True)
class Expected:
    """The sizes of the volumes; exact where those of the images are known.

    `seconds` are those of reading and encoding, without writing.
    """

    blocks: int
    bytes: int
    seconds: float
    is_exact: bool


def known_bytes(shares: Sequence[Share]) -> int | None:
    """Return the bytes that the volumes take, where all sizes are known."""
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


_DIGITS = 16  # of a digest that stands for something long
_OWN = {"workers"}  # what each rank may have its own of


def option_facts(packing: Packing) -> dict[str, str]:
    """Return all options by their names, and the libraries that decide the bytes.

    Raises:
        PackError: The options make no sense.
    """
    options = asdict(packing)
    parts = [options.pop(name) for name in ("encoding", "choice", "source", "layout")]
    libraries = {
        name: fact
        for name, fact in recorded_options(packing).items()
        if name in {"pillow", "libjpeg_turbo"}
    }
    named: Mapping[str, object] = {
        name: fact for part in (options, *parts, libraries) for name, fact in part.items()
    }
    return {name: str(fact) for name, fact in named.items() if name not in _OWN}


def listing_facts(gathered: Gathered) -> dict[str, str]:
    """Return what the sources hold, before an image is opened."""
    state = hashlib.sha256()
    for one in gathered.candidates:
        state.update(image_facts(one.image))
    for reject in gathered.rejects:
        state.update(json.dumps([reject.name, reject.reason]).encode())
    return {
        "images": str(len(gathered.candidates)),
        "rejects": str(len(gathered.rejects)),
        "class names": hashlib.sha256(json.dumps(gathered.classes).encode()).hexdigest()[:_DIGITS],
        "names, sizes and times": state.hexdigest()[:_DIGITS],
    }
