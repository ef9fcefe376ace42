import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.volume.checksum import combine, combine_blocks
from dtsflow.volume.format import BLOCK_BYTES


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_two_parts_combine_to_the_crc_of_the_whole(first: bytes, second: bytes) -> None:
    crc = combine(zlib.crc32(first), zlib.crc32(second), len(second))
    assert crc == zlib.crc32(first + second)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 255, 256, 65_537, BLOCK_BYTES, BLOCK_BYTES - 1])
def test_so_they_do_at_every_length(size: int) -> None:
    second = b"\x5a" * size
    assert combine(zlib.crc32(b"first"), zlib.crc32(second), size) == zlib.crc32(b"first" + second)


@given(st.lists(st.binary(min_size=7, max_size=7), max_size=9))
def test_equal_blocks_combine_in_order(blocks: list[bytes]) -> None:
    assert combine_blocks(map(zlib.crc32, blocks), 7) == zlib.crc32(b"".join(blocks))


def test_no_block_is_no_bytes() -> None:
    assert combine_blocks([], BLOCK_BYTES) == zlib.crc32(b"") == 0


def test_the_order_of_blocks_shows() -> None:
    one, other = zlib.crc32(b"one"), zlib.crc32(b"two")
    assert combine_blocks([one, other], 3) != combine_blocks([other, one], 3)


def test_thousands_of_blocks_are_still_exact() -> None:
    # Zeros run over more than 4 GiB: lengths in bits do not fit 32 bits.
    part = zlib.crc32(bytes(BLOCK_BYTES))
    whole = combine_blocks([part] * 512, BLOCK_BYTES)
    assert whole == combine(
        combine_blocks([part] * 256, BLOCK_BYTES),
        combine_blocks([part] * 256, BLOCK_BYTES),
        256 * BLOCK_BYTES,
    )
    assert combine_blocks([zlib.crc32(bytes(1))] * 8767, 1) == zlib.crc32(bytes(8767))
