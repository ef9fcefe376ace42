import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import binary

from dtsflow.errors import HeaderError
from dtsflow.testing import write_block_volume, write_small_set
from dtsflow.volume.format.file import check
from dtsflow.volume.format.header import BLOCK_CAPACITY, HEADER_BYTES, RECORD, Header, Kind

HERE = Path("x.dts")


@pytest.fixture
def stored(tmp_path: Path) -> bytes:
    path = write_block_volume(tmp_path / "v.dts", [[(b"a", 0), (b"b", 2)]])
    return path.read_bytes()[:HEADER_BYTES]


def changed(stored: bytes, offset: int, data: bytes) -> bytes:
    return stored[:offset] + data + stored[offset + len(data) :]


def test_fields_lie_where_the_format_says() -> None:
    assert RECORD.itemsize == 144
    assert RECORD.fields is not None
    places = {name: RECORD.fields[name][1] for name in RECORD.names or ()}
    assert places["num_samples"] == 52
    assert places["total_bytes"] == 72
    assert places["block_bytes"] == 84
    assert places["compression_ratio"] == 112
    assert places["crc_code"] == 140
    assert BLOCK_CAPACITY == (340, 1364, 1364, 1364)


def test_a_header_survives_being_read_and_stored(stored: bytes) -> None:
    header = Header.parse(stored, HERE)
    assert (header.num_samples, header.num_blocks, header.num_classes) == (2, 1, 3)
    assert header.dataset_type is Kind.IMAGENET
    assert header.to_bytes() == stored


def test_upstream_headers_survive_being_read_and_stored(reference: Path) -> None:
    paths = sorted(reference.glob("*.dts"))
    assert len(paths) == 8
    for path in paths:
        with path.open("rb") as file:
            raw = file.read(HEADER_BYTES)
        header = Header.parse(raw, path)
        check(header, path)
        assert header.to_bytes() == raw


def test_a_short_file_is_refused(stored: bytes) -> None:
    with pytest.raises(HeaderError, match=r"x\.dts has 143 bytes.*144"):
        Header.parse(stored[:143], HERE)
    with pytest.raises(HeaderError, match="has 0 bytes"):
        Header.parse(b"", HERE)


def test_a_foreign_magic_is_refused(stored: bytes) -> None:
    with pytest.raises(HeaderError, match="PK"):
        Header.parse(changed(stored, 0, b"PK\3\4"), HERE)


@pytest.mark.parametrize("major", [0, 2, 4])
def test_another_major_version_is_refused(stored: bytes, major: int) -> None:
    with pytest.raises(HeaderError, match=f"version {major}, this program reads version 3"):
        Header.parse(changed(stored, 4, bytes([major])), HERE)


def test_a_later_minor_version_is_read(stored: bytes) -> None:
    assert Header.parse(changed(stored, 5, b"\x07"), HERE).version == (3, 7, 0, 0)


def test_an_unknown_kind_is_refused(stored: bytes) -> None:
    with pytest.raises(HeaderError, match=r"FASHION.*MNIST"):
        Header.parse(changed(stored, 8, b" FASHION"), HERE)


def test_a_flag_that_is_no_flag_is_refused(stored: bytes) -> None:
    with pytest.raises(HeaderError, match="is_training is 7"):
        Header.parse(changed(stored, 16, b"\7"), HERE)


def test_the_stub_of_an_interrupted_export_is_named() -> None:
    stub = b".DTS\3\0\0\0".ljust(1 << 10, b"\0")
    with pytest.raises(HeaderError, match="interrupted export"):
        Header.parse(stub, HERE)


@pytest.mark.parametrize("is_training", [0, 1])
def test_no_blocks_and_no_crc_is_an_interrupted_export(stored: bytes, is_training: int) -> None:
    raw = changed(stored, 16, struct.pack("<I", is_training))
    raw = changed(changed(raw, 68, bytes(4)), 140, bytes(4))
    with pytest.raises(HeaderError, match="interrupted export"):
        check(Header.parse(raw, HERE), HERE)


@pytest.mark.parametrize(
    ("offset", "data", "message"),
    [
        (32, b"NCHW", "tensor_layout is 'NCHW'.*'NHWC'"),
        (20, b"\4", "level is 4.*0, 1, 2, 3"),
        (20, b"\1", "block_header_size is 4096.*16384"),
        (44, b"\1", "num_channels is 1.*3"),
        (80, b"\1", "header_bytes is 16777217.*16777216"),
        (92, b"\1", "block_size is 16777217.*16777216"),
        (96, b"\1", "block_header_size is 4097.*4096"),
        (84, b"\1", "block_bytes is 16777217.*16777216"),
        (72, b"\1", "total_bytes is 33554433.*33554432"),
        (60, b"\1", "volume_id is 1 of num_volumes 1"),
        (56, b"\0", "volume_id is 0 of num_volumes 0"),
    ],
)
def test_numbers_that_do_not_fit_a_block_volume_are_refused(
    stored: bytes, offset: int, data: bytes, message: str
) -> None:
    with pytest.raises(HeaderError, match=message):
        check(Header.parse(changed(stored, offset, data), HERE), HERE)


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (44, "num_channels is 255.*1"),
        (36, "image_width is 255.*28"),
        (40, "image_height is 255.*28"),
        (80, "header_bytes is 511.*256"),
        (96, "block_header_size is 255.*0"),
        (56, "num_volumes is 255.*1"),
    ],
)
def test_numbers_that_do_not_fit_a_small_set_are_refused(
    tmp_path: Path, offset: int, message: str
) -> None:
    stored = write_small_set(tmp_path / "m.dts", Kind.MNIST, 2).read_bytes()[:HEADER_BYTES]
    with pytest.raises(HeaderError, match=message):
        check(Header.parse(changed(stored, offset, b"\xff"), HERE), HERE)


def test_the_quirks_of_small_sets_are_no_damage(tmp_path: Path) -> None:
    path = write_small_set(tmp_path / "m.dts", Kind.MNIST, 2)
    header = Header.parse(path.read_bytes(), path)
    assert header.compress_level == 3
    assert header.total_bytes == 256 + 2 * (28 * 28 * 3 + 1)
    check(header, path)


@given(binary(min_size=0, max_size=200))
def test_any_bytes_give_a_header_or_a_header_error(raw: bytes) -> None:
    for data in (raw, b".DTS\3\0\0\0IMAGENET" + raw, b".DTS\3\0\0\0   MNIST" + raw):
        try:
            check(Header.parse(data, HERE), HERE)
        except HeaderError:
            continue
