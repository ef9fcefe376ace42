"""The order and the arrangement of upstream's exporter, step by step.

Facts from UPSTREAM sections 2.3 and 2.4; `random` is Python's Mersenne Twister, whose
shuffles with a given seed are the same in every version of Python 3.
"""

from collections.abc import Sequence
from random import Random

from dtsflow.errors import PackError
from dtsflow.volume.format.header import BLOCK_CAPACITY, BLOCK_ROOM, aligned
from dtsflow.volume.source.base import SourceImage

SUFFIX = ".jpeg"  # upstream takes no other, in any case
NUM_CLASSES = 1000
MAX_PIC_AREA = {True: 31667328, False: 18248230}  # at level 0, by is_training
_IMAGENET_BLOCKS = {1_281_167: 8700, 50_000: 400}  # by the number of images

_SEED = 42
_ROUNDS = 32

Item = tuple[int, int]  # an index and its aligned size


def name_order(images: Sequence[SourceImage]) -> list[int]:
    """Return indexes sorted by file name alone; equal ones by their folder."""
    return sorted(range(len(images)), key=lambda i: _by_file_name(images[i].name))


def shuffled(count: int) -> list[int]:
    """Return the order of levels 1 to 3: the name order, shuffled with seed 42."""
    order = list(range(count))
    Random(_SEED).shuffle(order)
    return order


def minimum_blocks(sizes: Sequence[int]) -> int:
    """Return how many blocks level 0 starts with."""
    known = _IMAGENET_BLOCKS.get(len(sizes))
    return known or max(1, sum(map(aligned, sizes)) // BLOCK_ROOM[0])


def arrange_level0(sizes: Sequence[int], minimum: int) -> list[list[int]]:
    """Share out the indexes over blocks of level 0, from sizes in name order.

    Raises:
        PackError: A block would hold more images than its index takes, which upstream
            writes and no reader can read.
    """
    packing = _Level0([(index, aligned(size)) for index, size in enumerate(sizes)], minimum)
    packing.seed()
    packing.fill_at_random()
    for _ in range(_ROUNDS):
        packing.fill_with_smallest()
    packing.overflow()
    for number, members in enumerate(packing.blocks):
        if len(members) > BLOCK_CAPACITY[0]:
            raise PackError(
                f"upstream's arrangement puts {len(members)} images into block {number}, whose "
                f"index takes {BLOCK_CAPACITY[0]}: such a file cannot be read. Pack without "
                "compat, or with more blocks (min-blocks)."
            )
    return [[index for index, _ in members] for members in packing.blocks if members]


class _Level0:
    """Blocks, what room they have, and the items that are left; the last is next."""

    def __init__(self, items: list[Item], minimum: int) -> None:
        self.blocks: list[list[Item]] = [[] for _ in range(minimum)]
        self._room = [BLOCK_ROOM[0]] * minimum
        self._minimum = minimum
        self._items = items

    def seed(self) -> None:
        """Put the largest items into the blocks, one each."""
        self._items.sort(key=lambda item: item[1])
        for block in range(min(self._minimum, len(self._items))):
            self._take(block)

    def fill_at_random(self) -> None:
        """Fill one block after the other, each until the next item does not fit."""
        Random(_SEED).shuffle(self._items)
        for block in range(self._minimum):
            while self._fits(block):
                self._take(block)

    def fill_with_smallest(self) -> None:
        """Give each block the smallest item left, the fullest block first."""
        blocks = sorted(zip(self._room, self.blocks, strict=True))
        self._room = [room for room, _ in blocks]
        self.blocks = [members for _, members in blocks]
        self._items.sort(key=lambda item: -item[1])
        for block in range(self._minimum):
            if self._fits(block):
                self._take(block)

    def overflow(self) -> None:
        """Put what is left into the last block and new ones, in shuffled order."""
        Random(_SEED).shuffle(self._items)
        while self._items:
            if not self._fits(len(self.blocks) - 1):
                self.blocks.append([])
                self._room.append(BLOCK_ROOM[0])
            self._take(len(self.blocks) - 1)

    def _fits(self, block: int) -> bool:
        return bool(self._items) and self._items[-1][1] <= self._room[block]

    def _take(self, block: int) -> None:
        item = self._items.pop()
        self.blocks[block].append(item)
        self._room[block] -= item[1]


def _by_file_name(name: str) -> tuple[str, str]:
    folder, _, file = name.rpartition("/")
    return file, folder
