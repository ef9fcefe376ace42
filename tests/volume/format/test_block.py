import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.errors import BlockError
from dtsflow.volume.format.block import BlockIndex, fill_block, parse_block
from dtsflow.volume.format.header import BLOCK_BYTES, BLOCK_CAPACITY, BLOCK_HEADER_BYTES

HERE = Path("x.dts")
Bytes = npt.NDArray[np.uint8]


def page(level: int = 0, *, block: int = 0, count: int = 3) -> bytearray:
    """A healthy index: samples of 100 bytes, 128 apart, labelled 0, 1, …"""
    front = BLOCK_HEADER_BYTES[level]
    words = [block, count]
    words += [front + 128 * i for i in range(count)] + [100] * count + list(range(count))
    packed = f"LV{level}B".encode() + struct.pack(f"<{len(words)}I", *words)
    return bytearray(packed.ljust(front, b"\0"))


def put(stored: bytearray, offset: int, word: int) -> bytes:
    struct.pack_into("<I", stored, offset, word)
    return bytes(stored)


def parse(stored: bytes, level: int = 0, block: int = 0) -> BlockIndex:
    return parse_block(stored, path=HERE, block=block, level=level)


def test_a_healthy_index_is_read() -> None:
    index = parse(bytes(page()))
    assert index.offsets.tolist() == [4096, 4224, 4352]
    assert index.sizes.tolist() == [100, 100, 100]
    assert index.labels.tolist() == [0, 1, 2]
    kinds = [str(part.dtype) for part in (index.offsets, index.sizes, index.labels)]
    assert kinds == ["int64", "int64", "int32"]


def test_the_index_keeps_no_view_of_the_bytes() -> None:
    memory = np.frombuffer(bytes(page()), np.uint8).copy()
    index = parse_block(memory, path=HERE, block=0, level=0)
    memory[:] = 0xFF
    assert index.labels.tolist() == [0, 1, 2]


def test_a_filled_block_is_read_back() -> None:
    memory = np.full(BLOCK_BYTES, 0xEE, np.uint8)
    used = fill_block(memory, block=4, level=1, samples=[b"abc", b"", b"d" * 65], labels=[7, 0, 2])
    index = parse_block(memory, path=HERE, block=4, level=1)
    assert index.offsets.tolist() == [16384, 16384 + 64, 16384 + 64]
    assert index.labels.tolist() == [7, 0, 2]
    assert memory[16384:16387].tobytes() == b"abc"
    assert used == 16384 + 64 + 128
    assert not memory[used:].any()


def test_a_block_without_samples_is_no_damage() -> None:
    assert len(parse(bytes(page(count=0)))) == 0


def test_more_than_a_thousand_samples_are_read() -> None:
    assert len(parse(bytes(page(1, count=1100)), 1)) == 1100
    assert len(parse(bytes(page(3, count=1364)), 3)) == 1364
    assert len(parse(bytes(page(count=340)))) == 340


@pytest.mark.parametrize(("level", "count"), [(0, 341), (1, 1365), (0, 0xFFFFFFFF)])
def test_more_samples_than_the_index_holds_are_refused(level: int, count: int) -> None:
    stored = put(page(level), 8, count)
    with pytest.raises(
        BlockError,
        match=f"block 0 of x.dts counts {count} samples, its index holds {BLOCK_CAPACITY[level]}",
    ):
        parse(stored, level)


def test_a_magic_of_another_level_is_refused() -> None:
    stored = page()
    stored[:4] = b"LV2B"
    with pytest.raises(BlockError, match=r"block 0 of x\.dts starts with b'LV2B'.*b'LV0B'"):
        parse(bytes(stored))


def test_a_block_in_the_wrong_place_is_refused() -> None:
    with pytest.raises(BlockError, match=r"block 2 of x\.dts says it is block 5"):
        parse(bytes(page(block=5)), block=2)


def test_a_sample_inside_the_index_is_refused() -> None:
    with pytest.raises(BlockError, match="sample 0 starts at byte 4095, inside the index"):
        parse(put(page(), 12, 4095))


def test_a_sample_that_leaves_the_block_is_refused() -> None:
    exact = put(page(count=1), 16, BLOCK_BYTES - 4096)
    assert parse(exact).sizes.tolist() == [BLOCK_BYTES - 4096]
    over = put(page(count=1), 16, BLOCK_BYTES - 4095)
    with pytest.raises(BlockError, match=r"sample 0 .*ends at 16777217, past the block's 16777216"):
        parse(over)


@pytest.mark.parametrize("offset", [0xFFFFFFFF, 1 << 31, BLOCK_BYTES])
def test_a_hostile_offset_does_not_wrap(offset: int) -> None:
    with pytest.raises(BlockError, match=rf"sample 2 starts at byte {offset}"):
        parse(put(page(), 12 + 8, offset))


def test_a_hostile_size_does_not_wrap() -> None:
    with pytest.raises(BlockError, match=r"sample 1 .* has 4294967295"):
        parse(put(page(), 12 + 12 + 4, 0xFFFFFFFF))


def test_overlapping_samples_are_refused() -> None:
    with pytest.raises(BlockError, match="sample 0 ends at byte 4225, after sample 1 starts"):
        parse(put(page(), 24, 129))


def test_samples_out_of_order_are_refused() -> None:
    stored = page()
    first, second = stored[12:16], stored[16:20]
    stored[12:16], stored[16:20] = second, first
    with pytest.raises(BlockError, match=r"sample 0 ends .* after sample 1 starts"):
        parse(bytes(stored))


def test_a_label_that_is_no_signed_number_is_refused() -> None:
    with pytest.raises(BlockError, match="sample 2 has label 2147483648"):
        parse(put(page(), 36 + 8, 1 << 31))


def test_every_refusal_says_what_to_do() -> None:
    with pytest.raises(BlockError, match=r"Export the file again, or copy it from a good one\.$"):
        parse(bytes(page(block=5)))


@given(st.integers(0, 3), st.lists(st.integers(0, 4095), max_size=40), st.data())
def test_any_page_gives_samples_inside_the_block_or_a_block_error(
    level: int, places: list[int], data: st.DataObject
) -> None:
    stored = page(level, count=20)
    for place in places:
        stored[4 + place % 252] = data.draw(st.integers(0, 255))
    try:
        index = parse(bytes(stored), level)
    except BlockError:
        return
    ends = index.offsets + index.sizes
    assert (index.offsets >= BLOCK_HEADER_BYTES[level]).all()
    assert (ends <= BLOCK_BYTES).all()
    assert (index.offsets[1:] >= ends[:-1]).all()
    assert (index.labels >= 0).all()
