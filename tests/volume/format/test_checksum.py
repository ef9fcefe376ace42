import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.native import core
from dtsflow.volume.format.header import BLOCK_BYTES
from dtsflow.volume.format.io import combine, combine_blocks, crc32


@pytest.fixture
def switched_off(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(core.SWITCH, "0")
    core._find.cache_clear()
    yield
    monkeypatch.undo()
    core._find.cache_clear()


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_bytes_have_zlibs_crc_at_once_and_in_pieces(first: bytes, second: bytes) -> None:
    assert crc32(first) == zlib.crc32(first)
    assert crc32(memoryview(second), crc32(first)) == zlib.crc32(first + second)


@pytest.mark.usefixtures("switched_off")
def test_they_have_it_without_the_core() -> None:
    assert core.load() is None
    assert crc32(b"second", crc32(b"first")) == zlib.crc32(b"firstsecond")


def test_a_core_without_fast_instructions_leaves_it_to_zlib() -> None:
    found = core.load()
    if found is None:
        pytest.skip("the native core was not built")
    best = found.cpu_level()
    assert found.force_cpu_level("portable")
    try:
        assert crc32(b"second", crc32(b"first")) == zlib.crc32(b"firstsecond")
    finally:
        found.force_cpu_level(best)


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
