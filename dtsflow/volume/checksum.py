"""CRC-32 of bytes, and of a whole from the CRC-32 of its parts."""

import zlib
from collections.abc import Iterable
from functools import lru_cache

from dtsflow.native.core import load

Matrix = tuple[int, ...]  # 32 columns over GF(2): column i is what bit i turns into

_POLYNOMIAL = 0xEDB88320  # of zlib's CRC-32, reflected


def crc32(data: bytes | memoryview, value: int = 0) -> int:
    """The CRC-32 of contiguous bytes; `value` is that of the bytes before them.

    The compiled core computes it where there is one that is faster than zlib. Both work
    without the GIL and give the same.
    """
    core = load()
    # Its portable path, which has a table alone, takes about twice as long as zlib.
    if core is None or core.cpu_level() == "portable":
        return zlib.crc32(data, value)
    crc: int = core.crc32(data, value)
    return crc


def combine(first: int, second: int, second_bytes: int) -> int:
    """The CRC-32 of two byte strings after each other, from theirs.

    Running a CRC over zero bytes is linear over GF(2): a matrix carries `first` over
    `second_bytes` of them, and the start and end values of the two cancel.
    """
    return _times(_zero_bytes(second_bytes), first) ^ second


def combine_blocks(crcs: Iterable[int], block_bytes: int) -> int:
    """The CRC-32 of equally long blocks after each other, from theirs."""
    whole = 0
    for crc in crcs:
        whole = combine(whole, crc, block_bytes)
    return whole


@lru_cache(maxsize=8)
def _zero_bytes(count: int) -> Matrix:
    """What `count` zero bytes do to a CRC register."""
    result: Matrix = tuple(1 << bit for bit in range(32))
    power: Matrix = (_POLYNOMIAL, *(1 << bit for bit in range(31)))  # one zero bit
    bits = 8 * count
    while bits:
        if bits & 1:
            result = _product(power, result)
        power = _product(power, power)
        bits >>= 1
    return result


def _product(left: Matrix, right: Matrix) -> Matrix:
    return tuple(_times(left, column) for column in right)


def _times(matrix: Matrix, vector: int) -> int:
    total = 0
    for column in matrix:
        if not vector:
            break
        if vector & 1:
            total ^= column
        vector >>= 1
    return total
