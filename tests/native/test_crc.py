"""The compiled core's CRC-32 against zlib's."""

import zlib
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.native.core import load

found = load()
if found is None:
    pytest.skip("the native core was not built", allow_module_level=True)
core: ModuleType = found

LEVELS = [level for level in ("portable", "avx2") if core.force_cpu_level(level)]
NOISE = np.random.default_rng(7).integers(0, 256, 1 << 20, np.uint8)


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each set of instructions that this processor has; the best one afterwards."""
    assert core.force_cpu_level(request.param)
    yield request.param
    core.force_cpu_level(LEVELS[-1])


@pytest.mark.usefixtures("level")
def test_every_length_at_every_alignment_has_zlibs_crc() -> None:
    for start in range(65):
        for size in range(601):
            piece = NOISE[start : start + size].data
            assert core.crc32(piece) == zlib.crc32(piece), (start, size)


@pytest.mark.usefixtures("level")
def test_one_bit_anywhere_gives_zlibs_crc() -> None:
    for bit in range(8 * 200):
        data = (1 << bit).to_bytes(200, "little")
        assert core.crc32(data, 0xFFFFFFFF) == zlib.crc32(data, 0xFFFFFFFF), bit


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("seed", range(8))
def test_long_pieces_have_zlibs_crc_after_any_value(seed: int) -> None:
    draw = np.random.default_rng(seed)
    start, stop = sorted(draw.integers(0, len(NOISE), 2).tolist())
    value = int(draw.integers(0, 1 << 32))
    piece = NOISE[start:stop].data
    assert core.crc32(piece, value) == zlib.crc32(piece, value)


@pytest.mark.usefixtures("level")
def test_all_ones_and_all_zeros_have_zlibs_crc() -> None:
    for byte in (0, 255):
        data = bytes([byte]) * (1 << 16)
        for value in (0, 1, 0xFFFFFFFF):
            assert core.crc32(data, value) == zlib.crc32(data, value)


@given(data=st.binary(max_size=1000), value=st.integers(0, (1 << 32) - 1))
def test_any_bytes_after_any_value_have_zlibs_crc(data: bytes, value: int) -> None:
    try:
        for level in LEVELS:
            core.force_cpu_level(level)
            assert core.crc32(data, value) == zlib.crc32(data, value), level
    finally:
        core.force_cpu_level(LEVELS[-1])


@given(sizes=st.lists(st.integers(0, 300), max_size=8))
def test_pieces_chain_to_the_crc_of_the_whole(sizes: list[int]) -> None:
    crc = start = 0
    for size in sizes:
        crc = core.crc32(NOISE[start : start + size].data, crc)
        start += size
    assert crc == core.crc32(NOISE[:start].data) == zlib.crc32(NOISE[:start].data)


def test_no_bytes_leave_the_value_as_it_is() -> None:
    for nothing in (b"", bytearray(), memoryview(b""), np.empty(0, np.uint8), NOISE[5:5].data):
        assert core.crc32(nothing) == 0
        assert core.crc32(nothing, 0xCBF43926) == 0xCBF43926


def test_any_contiguous_buffer_is_taken_as_its_bytes() -> None:
    frozen = NOISE[:3000].copy()
    frozen.setflags(write=False)
    for buffer in (
        frozen,
        frozen.data,
        frozen.tobytes(),
        bytearray(frozen),
        frozen.reshape(10, 100, 3),
        frozen.reshape(10, 100, 3).data,
        frozen.view(np.float32),
    ):
        assert core.crc32(buffer) == zlib.crc32(frozen.data)


def test_a_buffer_with_gaps_is_refused_and_so_is_what_is_none() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        core.crc32(NOISE[::2])
    with pytest.raises(BufferError, match="contiguous"):
        core.crc32(NOISE[::2].data)
    with pytest.raises(TypeError, match="bytes-like"):
        core.crc32("text")


@pytest.mark.parametrize("value", [-1, 1 << 32])
def test_a_value_of_more_than_32_bits_is_refused(value: int) -> None:
    with pytest.raises(TypeError):
        core.crc32(b"", value)


def test_a_buffer_is_let_go() -> None:
    held = bytearray(b"123456789")
    assert core.crc32(held) == 0xCBF43926  # the check value of this CRC in all catalogues
    held.append(0)  # BufferError while anyone holds it
