"""From a stream of images to blocks."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dtsflow.volume.format import BLOCK_CAPACITY, BLOCK_ROOM, aligned
from dtsflow.volume.packing.prepare import Prepared
from dtsflow.volume.source.listing import Reject

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
    """How many images a block may get; upstream does not count them."""
    return sys.maxsize if upstream else min(BLOCK_CAPACITY[level], PORTABLE)


def cut_as_planned(
    stream: Iterable[Prepared | Reject], counts: Sequence[int], start: int
) -> Iterator[Cut]:
    """Blocks of known numbers of images; `start` items were cut before."""
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
    """Blocks filled in order, each until the next image does not fit."""
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
