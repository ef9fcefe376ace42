"""The arrangement of images: in which volume, in which order, and in which block.

When all sizes are known, `arrange` shares the samples out so that blocks are full. Else
blocks are cut from the stream of images.
"""

import hashlib
import heapq
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import PIL
from PIL import features

from dtsflow.errors import PackError
from dtsflow.volume.format.header import BLOCK_CAPACITY, BLOCK_ROOM, SUFFIX, aligned
from dtsflow.volume.packing import upstream
from dtsflow.volume.packing.options import Packing
from dtsflow.volume.packing.prepare import Candidate, Prepared
from dtsflow.volume.source.base import Reject, SourceImage
from dtsflow.volume.source.select import mixing_key

_FILLING = 32  # one part in so many of all bytes is kept back to fill the gaps


def arrange(sizes: Sequence[int], capacity: int, most: int) -> list[list[int]]:
    """Share samples out over as few bins as can be, all with the same mix of sizes.

    The largest go first, each into the emptiest bin, so that every bin gets some of
    every size; the smallest then fill the gaps, first fit. If that takes more bins than
    the bytes need, plain first-fit decreasing is tried as well, and the shorter result
    is used. `sizes` are at most `capacity` each, and no bin takes more than `most`.
    Equal sizes go in the order given. Returns the indexes in each bin, largest first.
    """
    fewest = max(-(-sum(sizes) // capacity), -(-len(sizes) // most))
    mixed = _spread(sizes, capacity, most, fewest)
    if len(mixed) == fewest:
        return mixed
    return min(mixed, first_fit_decreasing(sizes, capacity, most), key=len)


def first_fit_decreasing(sizes: Sequence[int], capacity: int, most: int) -> list[list[int]]:
    """Put the largest first, each into the first bin with room for it."""
    bins: list[list[int]] = []
    _first_fit(_decreasing(sizes), sizes, bins, capacity, most)
    return bins


def _spread(sizes: Sequence[int], capacity: int, most: int, fewest: int) -> list[list[int]]:
    bins: list[list[int]] = [[] for _ in range(fewest)]
    emptiest = [(0, number) for number in range(fewest)]  # a heap: bytes in it, which bin
    items = _decreasing(sizes)
    left = sum(sizes)
    kept_back = left // _FILLING
    placed = 0
    for item in items:
        used, number = emptiest[0]
        if left <= kept_back or used + sizes[item] > capacity or len(bins[number]) == most:
            break
        bins[number].append(item)
        heapq.heapreplace(emptiest, (used + sizes[item], number))
        left -= sizes[item]
        placed += 1
    _first_fit(items[placed:], sizes, bins, capacity, most)
    return bins


def _first_fit(
    items: Iterable[int], sizes: Sequence[int], bins: list[list[int]], capacity: int, most: int
) -> None:
    """Put `items` in turn into the first of `bins` with room; add bins at the end."""
    tree = _Rooms(bins, sizes, capacity, most)
    for item in items:
        number = tree.find(sizes[item])
        if number == len(bins):
            bins.append([])
        bins[number].append(item)
        room = tree.room(number) - sizes[item]
        tree.set_room(number, room if len(bins[number]) < most else -1)


def _decreasing(sizes: Sequence[int]) -> list[int]:
    return sorted(range(len(sizes)), key=lambda item: -sizes[item])


class _Rooms:
    """The room of every bin as a tree of maxima: the first fit in log(bins) steps.

    A scan over the bins would take hours for a million images.
    """

    def __init__(
        self, bins: Sequence[Sequence[int]], sizes: Sequence[int], capacity: int, most: int
    ) -> None:
        # Of the bins that are not full by number, all but one are more than half full.
        enough = 2 * sum(sizes) // capacity + len(sizes) // most + 2 + len(bins)
        self._leaves = 1 << (enough - 1).bit_length()
        self._most = [capacity] * (2 * self._leaves)
        for number, members in enumerate(bins):
            room = capacity - sum(sizes[item] for item in members)
            self._most[self._leaves + number] = room if len(members) < most else -1
        for node in range(self._leaves - 1, 0, -1):
            self._most[node] = max(self._most[2 * node], self._most[2 * node + 1])

    def find(self, size: int) -> int:
        assert self._most[1] >= size
        node = 1
        while node < self._leaves:
            node *= 2
            if self._most[node] < size:
                node += 1
        return node - self._leaves

    def room(self, number: int) -> int:
        return self._most[self._leaves + number]

    def set_room(self, number: int, room: int) -> None:
        node = self._leaves + number
        self._most[node] = room
        while node > 1:
            node //= 2
            self._most[node] = max(self._most[2 * node], self._most[2 * node + 1])


PORTABLE = 1000  # samples a block: upstream's reader refuses more


@dataclass(frozen=True, slots=True)
class Cut:
    """One block's images, and what was rejected on the way to them.

    `position` counts the stream's items up to the block's end, rejects included. The
    last cut may have no images: it brings the rejects after the last block.
    """

    images: tuple[Prepared, ...]
    rejects: tuple[Reject, ...]
    position: int


def most_images(level: int, *, upstream: bool) -> int:
    """Return how many images a block may get; upstream does not count them."""
    return sys.maxsize if upstream else min(BLOCK_CAPACITY[level], PORTABLE)


def cut_as_planned(
    stream: Iterable[Prepared | Reject], counts: Sequence[int], start: int
) -> Iterator[Cut]:
    """Cut blocks of known numbers of images; `start` items were cut before."""
    images: list[Prepared] = []
    remaining = iter(counts)
    wanted = next(remaining, 0)
    for position, item in enumerate(stream, start + 1):
        assert isinstance(item, Prepared)  # what was vetted is not rejected later
        images.append(item)
        if len(images) == wanted:
            yield Cut(tuple(images), (), position)
            images, wanted = [], next(remaining, 0)
    assert not images


def cut_next_fit(
    stream: Iterable[Prepared | Reject], level: int, most: int, start: int
) -> Iterator[Cut]:
    """Fill blocks in order, each until the next image does not fit."""
    images: list[Prepared] = []
    rejects: list[Reject] = []
    room = BLOCK_ROOM[level]
    position = start
    for position, item in enumerate(stream, start + 1):
        if isinstance(item, Reject):
            rejects.append(item)
            continue
        size = aligned(len(item.encoded.data))
        if images and (size > room or len(images) == most):
            # The image that did not fit is not part of the block, and is cut again.
            yield Cut(tuple(images), tuple(rejects), position - 1)
            images, rejects, room = [], [], BLOCK_ROOM[level]
        images.append(item)
        room -= size
    if images or rejects:
        yield Cut(tuple(images), tuple(rejects), position)


PACKER = 1  # counts up when the same sources and options give other bytes


@dataclass(frozen=True, slots=True)
class Share:
    """One volume's images in their order.

    `counts` has the number of images of each block if that is known beforehand. It is
    None if blocks are filled in order.
    """

    volume: Path
    candidates: tuple[Candidate, ...]
    counts: tuple[int, ...] | None


def share_out(
    candidates: Sequence[Candidate], packing: Packing, stem: str, folder: Path
) -> tuple[Share, ...]:
    """Order the images of a listing (sorted by name) and cut them into volumes.

    Images whose size is known are arranged so that blocks are full.

    Raises:
        PackError: There are fewer images than volumes, or upstream cannot arrange them.
    """
    paths = volume_paths(packing, stem, folder)
    if packing.layout.upstream:
        ordered, counts = _upstream(candidates, packing)
        return (Share(paths[0], ordered, counts),)
    volumes = len(paths)
    if len(candidates) < volumes:
        raise PackError(f"{len(candidates)} images do not fill {volumes} volumes; ask for fewer.")
    mixed = sorted(candidates, key=lambda one: mixing_key(one.image.name))
    bounds = [len(mixed) * k // volumes for k in range(volumes + 1)]
    shares = []
    for number in range(volumes):
        part = mixed[bounds[number] : bounds[number + 1]]
        ordered, counts = _arranged(part, packing.encoding.level)
        shares.append(Share(paths[number], ordered, counts))
    return tuple(shares)


def volume_paths(packing: Packing, stem: str, folder: Path) -> tuple[Path, ...]:
    """Return the paths of the volumes of a pack."""
    volumes = packing.layout.volumes
    return tuple(folder / _file_name(stem, number, volumes) for number in range(volumes))


def plan_digest(shares: Sequence[Share], classes: Sequence[str], options: dict[str, Any]) -> str:
    """Return the SHA-256 of all that decides the bytes of the volumes."""
    state = hashlib.sha256(json.dumps([PACKER, options, list(classes)]).encode())
    for share in shares:
        state.update(json.dumps([share.volume.name, share.counts]).encode())
        for one in share.candidates:
            state.update(image_facts(one.image))
    return state.hexdigest()


def image_facts(image: SourceImage) -> bytes:
    """Return the facts of an image that decide the bytes and show a later change."""
    stored = image.stored
    facts = [image.name, image.label, stored.offset, stored.size, stored.mtime_ns]
    return json.dumps(facts).encode()


def recorded_options(packing: Packing) -> dict[str, Any]:
    """Return, as plain values, what decides the bytes besides the sources."""
    recipe = packing.encoding.recipe(upstream=packing.layout.upstream)
    options: dict[str, Any] = {
        "split": packing.split,
        "level": packing.encoding.level,
        "recipe": None,
        "layout": asdict(packing.layout),
    }
    if recipe is not None:
        options["recipe"] = recipe.facts()
    if packing.encoding.restarts:
        options["restarts"] = True
    if recipe is not None or packing.layout.oversize == "reencode":
        # Unchanged bytes depend on no library.
        options["pillow"] = PIL.__version__
        options["libjpeg_turbo"] = features.version_feature("libjpeg_turbo")
    return options


def _upstream(
    candidates: Sequence[Candidate], packing: Packing
) -> tuple[tuple[Candidate, ...], tuple[int, ...] | None]:
    by_name = [candidates[i] for i in upstream.name_order([one.image for one in candidates])]
    if packing.encoding.level > 0:
        return tuple(by_name[i] for i in upstream.shuffled(len(by_name))), None
    sizes = [one.size for one in by_name]
    minimum = packing.layout.min_blocks or upstream.minimum_blocks(sizes)
    blocks = upstream.arrange_level0(sizes, minimum)
    return tuple(by_name[i] for members in blocks for i in members), tuple(map(len, blocks))


def _arranged(
    mixed: Sequence[Candidate], level: int
) -> tuple[tuple[Candidate, ...], tuple[int, ...] | None]:
    if not all(one.size for one in mixed):
        return tuple(mixed), None
    sizes = [aligned(one.size) for one in mixed]
    blocks = arrange(sizes, BLOCK_ROOM[level], most_images(level, upstream=False))
    # Indexes in the mixed order, so that a block is in that order too.
    return tuple(mixed[i] for members in blocks for i in sorted(members)), tuple(map(len, blocks))


def _file_name(stem: str, number: int, volumes: int) -> str:
    part = f"-{number + 1:05d}-of-{volumes:05d}" if volumes > 1 else ""
    return f"{stem}{part}{SUFFIX}"
