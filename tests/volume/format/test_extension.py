import json
import re
import struct
import zlib
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.errors import HeaderError
from dtsflow.volume.format.extension import (
    EXTENSION_OFFSET,
    PREFIX_BYTES,
    About,
    Extension,
    extension_bytes,
    fits,
)
from dtsflow.volume.format.header import BLOCK_BYTES

PATH = Path("v.dts")
ABOUT = About(
    class_names=("cat", "Hündin \N{DOG}", "\udcff"),
    header=bytes(range(144)),
    manifest_sha256="ab" * 32,
    packer="dtsflow 1",
    options={"level": 2, "recipe": {"crops": True, "subsampling": None}},
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
    statistics_images=7,
)
SMALL = About(class_names=("a",), header=b"", manifest_sha256="", packer="", options={})


def index(counts: list[int], *, about: About = ABOUT, sizes: bool = True) -> Extension:
    samples = sum(counts)
    return Extension(
        header_crc=0xDEADBEEF,
        about=about,
        block_crcs=np.arange(len(counts), dtype=np.uint32) + np.uint32(0xFFFFFF00),
        counts=np.array(counts, np.uint32),
        widths=np.arange(samples, dtype=np.uint16) + 1 if sizes else None,
        heights=np.arange(samples, dtype=np.uint16) + 30_000 if sizes else None,
    )


def parsed(area: bytes) -> Extension:
    extension = Extension.parse(area, PATH)
    assert extension is not None
    return extension


def sealed(area: bytes | bytearray) -> bytes:
    """With the CRC-32 put right, as one who means harm would."""
    body = bytearray(area)
    body[12:16] = bytes(4)
    body[12:16] = struct.pack("<I", zlib.crc32(body))
    return bytes(body)


def with_json(text: bytes) -> bytes:
    text += b" " * (-len(text) % 8)
    total = PREFIX_BYTES + len(text) + 8
    prefix = struct.pack("<4s7I", b"DTSX", 1, total, 0, 0, len(text), 1, 0)
    return sealed(prefix + text + bytes(8))


def same(left: Extension, right: Extension) -> bool:
    return all(
        np.array_equal(getattr(left, field.name), getattr(right, field.name))
        if isinstance(getattr(left, field.name), np.ndarray)
        else getattr(left, field.name) == getattr(right, field.name)
        for field in fields(Extension)
        if field.name != "crc"
    )


@given(st.lists(st.integers(0, 30), max_size=8), st.booleans(), st.sampled_from([ABOUT, SMALL]))
def test_an_index_comes_back_as_it_was(counts: list[int], sizes: bool, about: About) -> None:  # noqa: FBT001  # drawn
    # Without samples, sizes take no bytes: then there are none.
    extension = index(counts, about=about, sizes=sizes and sum(counts) > 0)
    got = parsed(extension.to_bytes())
    assert same(got, extension)
    assert got.crc == struct.unpack_from("<I", extension.to_bytes(), 12)[0]


def test_the_bytes_are_those_of_the_table() -> None:
    stored = index([2, 1]).to_bytes()
    magic, version, total, crc, header_crc, text_bytes, blocks, samples = struct.unpack_from(
        "<4s7I", stored
    )
    assert (magic, version, total) == (b"DTSX", 1, len(stored))
    assert crc == zlib.crc32(stored[:12] + bytes(4) + stored[16:])
    assert (header_crc, blocks, samples) == (0xDEADBEEF, 2, 3)
    assert text_bytes % 8 == 0
    text = stored[32 : 32 + text_bytes].decode("utf-8")
    assert len(text.rstrip(" ")) > text_bytes - 8
    values = json.loads(text)
    assert values["class_names"] == list(ABOUT.class_names)
    assert bytes.fromhex(values["header"]) == ABOUT.header
    assert values["manifest_sha256"] == ABOUT.manifest_sha256
    assert (values["packer"], values["options"]) == (ABOUT.packer, ABOUT.options)
    assert (values["mean"], values["std"]) == ([*ABOUT.mean], [*ABOUT.std])
    assert values["statistics_images"] == 7
    assert struct.unpack("<4I3H3H", stored[32 + text_bytes :]) == (
        *(0xFFFFFF00, 0xFFFFFF01),
        *(2, 1),
        *(1, 2, 3),
        *(30_000, 30_001, 30_002),
    )
    assert EXTENSION_OFFSET == 4096


def test_without_sizes_nothing_takes_their_place() -> None:
    assert len(index([2, 1]).to_bytes()) - len(index([2, 1], sizes=False).to_bytes()) == 4 * 3


def test_every_single_flipped_bit_is_found() -> None:
    stored = index([2, 1], about=SMALL).to_bytes()
    for bit in range(8 * len(stored)):
        flipped = bytearray(stored)
        flipped[bit // 8] ^= 1 << bit % 8
        for area in (bytes(flipped), bytes(flipped) + bytes(1000)):
            with pytest.raises(HeaderError, match=r"v\.dts: the extension index at byte 4096"):
                Extension.parse(area, PATH)


def test_what_follows_the_index_is_not_looked_at() -> None:
    extension = index([4])
    assert same(parsed(extension.to_bytes() + b"\xff" * 99), extension)
    assert same(parsed(extension.to_bytes() + bytes(99)), extension)
    view = Extension.parse(memoryview(extension.to_bytes()), PATH)
    assert view is not None
    assert same(view, extension)


def test_the_arrays_are_the_indexs_own_and_can_be_written() -> None:
    got = parsed(index([4]).to_bytes())
    for array in (got.block_crcs, got.counts, got.widths, got.heights):
        assert array is not None
        array[0] = 0


@pytest.mark.parametrize("size", [0, 4, 31, 32, 33, 5000])
def test_where_zeros_are_no_index_is(size: int) -> None:
    assert Extension.parse(bytes(size), PATH) is None
    assert extension_bytes(bytes(size), PATH) == 0


def test_a_magic_that_went_to_zeros_is_damage_and_not_absence() -> None:
    stored = index([4]).to_bytes()
    with pytest.raises(HeaderError, match="starts with"):
        Extension.parse(bytes(4) + stored[4:], PATH)


@pytest.mark.parametrize("end", [1, 4, 31, 32, 33, 100, -1])
def test_an_index_that_is_cut_short_is_refused(end: int) -> None:
    with pytest.raises(HeaderError):
        Extension.parse(index([4]).to_bytes()[:end], PATH)


def test_a_newer_version_asks_for_a_newer_program() -> None:
    stored = bytearray(index([4]).to_bytes())
    stored[4] = 2
    with pytest.raises(HeaderError, match=r"of version 2, this program reads 1\..*newer dtsflow"):
        Extension.parse(sealed(stored), PATH)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        (2, 0),
        (2, 31),
        (2, BLOCK_BYTES - 4095),
        (2, 0xFFFFFFFF),
        (5, 0),
        (5, 0xFFFFFFFF),
        (5, 8),
        (6, 0),
        (6, 3),
        (6, 0xFFFFFFFF),
        (6, 0x20000000),
        (7, 0),
        (7, 4),
        (7, 0xFFFFFFFF),
    ],
)
@pytest.mark.parametrize("sizes", [False, True])
def test_hostile_lengths_are_refused(word: int, value: int, *, sizes: bool) -> None:
    stored = bytearray(index([2, 1], sizes=sizes).to_bytes())
    stored[4 * word : 4 * word + 4] = struct.pack("<I", value)
    with pytest.raises(HeaderError, match="is damaged"):
        Extension.parse(sealed(stored), PATH)


def test_hostile_counts_are_refused() -> None:
    stored = bytearray(index([2, 1], sizes=False).to_bytes())
    # In 32 bits they have the sum that the prefix says.
    stored[-8:] = struct.pack("<2I", 0xFFFFFFFF, 4)
    with pytest.raises(HeaderError, match="counts 3 samples"):
        Extension.parse(sealed(stored), PATH)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"class_names": "ab"}',
        b'{"class_names": [], "header": "0"}',
        b'{"class_names": [], "header": 7}',
        b'{"class_names": [], "options": 7}',
        b'{"class_names": [], "options": [[1]]}',
        b'{"class_names": [], "mean": 7}',
        b'{"class_names": [], "mean": ["x"]}',
        b'{"class_names": [], "std": [' + b"9" * 400 + b"]}",
        b'{"class_names": [], "statistics_images": 1e999}',
        b'{"class_names": [], "statistics_images": NaN}',
        b'{"class_names": [], "statistics_images": null}',
        b'{"class_names": [], "statistics_images": ' + b"9" * 5000 + b"}",
        b'{"class_names": ' + b"[" * 200_000,
        b'{"class_names": [], "x": ' + b'{"y":' * 200_000,
        b"\xff\xfe\xff",
        b"\xef\xbb\xbf{}",
    ],
    ids=lambda text: text[:40].decode("latin-1"),
)
def test_hostile_json_is_refused(text: bytes) -> None:
    with pytest.raises(HeaderError, match="its JSON cannot be read"):
        Extension.parse(with_json(text), PATH)


def test_json_of_a_later_packer_with_more_to_say_is_read() -> None:
    got = parsed(with_json(b'{"class_names": ["a"], "later": [1, 2]}'))
    assert got.about == SMALL


def test_an_error_says_what_to_do() -> None:
    with pytest.raises(HeaderError, match=re.escape("Run `dtsflow verify` on the file")):
        Extension.parse(b"junk" + bytes(28), PATH)


def test_what_fits_the_header_area_does_and_one_sample_more_may_not() -> None:
    room = BLOCK_BYTES - EXTENSION_OFFSET
    blocks = 30_000
    text = len(ABOUT.to_json())
    most = (room - PREFIX_BYTES - text - 8 - 8 * blocks) // 4
    assert fits(ABOUT, blocks, most)
    assert not fits(ABOUT, blocks, most + 1)
    counts = [most // blocks] * blocks
    counts[-1] += most % blocks
    stored = replace(
        index([1]),
        block_crcs=np.zeros(blocks, np.uint32),
        counts=np.array(counts, np.uint32),
        widths=np.ones(most, np.uint16),
        heights=np.ones(most, np.uint16),
    ).to_bytes()
    assert len(stored) <= room
    assert extension_bytes(stored[:PREFIX_BYTES], PATH) == len(stored)
