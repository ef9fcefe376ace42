"""Numbers and names of the DTS version 3 format."""

from enum import Enum

MAGIC = b".DTS"
MAJOR = 3  # a higher minor number only adds what an older reader may ignore
HEADER_BYTES = 144  # the struct; the area it lies in is larger
BLOCK_BYTES = 1 << 24  # one IO unit, and what the header area of a block volume takes
SMALL_AREA_BYTES = 256  # header area of MNIST and CIFAR files
SAMPLE_ALIGN = 64  # a cache line: samples start on it inside a block

LEVELS = (0, 1, 2, 3)
BLOCK_MAGIC = tuple(f"LV{level}B".encode() for level in LEVELS)
BLOCK_HEADER_BYTES = (4096, 16384, 16384, 16384)
BLOCK_ROOM = tuple(BLOCK_BYTES - size for size in BLOCK_HEADER_BYTES)  # bytes of samples
BLOCK_PREFIX_BYTES = 12  # magic, block id, count
ENTRY_BYTES = 12  # offset, size, label
# 340 at level 0, 1364 above: what fits the block header, whatever other readers allow.
BLOCK_CAPACITY = tuple((size - BLOCK_PREFIX_BYTES) // ENTRY_BYTES for size in BLOCK_HEADER_BYTES)
LARGEST_LABEL = (1 << 31) - 1  # written unsigned, read signed

SUFFIX = ".dts"


class Kind(Enum):
    """What a file holds; the value is the header's type field without its padding."""

    IMAGENET = "IMAGENET"
    MNIST = "MNIST"
    CIFAR10 = "CIFAR10"
    CIFAR100 = "CIFAR100"

    @property
    def in_blocks(self) -> bool:
        """Whether samples lie in 16 MiB blocks; otherwise labels, then raw pixels."""
        return self is Kind.IMAGENET


def aligned(size: int) -> int:
    """The bytes that a sample of `size` bytes takes in a block."""
    return -(-size // SAMPLE_ALIGN) * SAMPLE_ALIGN
