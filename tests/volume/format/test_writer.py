import errno
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dtsflow.errors import PackError
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.format.header import BLOCK_BYTES, Facts
from dtsflow.volume.format.writer import Samples, write_volume

FACTS = Facts(
    level=0, is_training=True, num_blocks=2, num_classes=5, max_pic_area=99, source_bytes=1000
)
BLOCKS: list[Samples] = [([b"a", b"b" * 100], [4, 0]), ([b"c"], [1])]


def test_the_header_says_what_upstream_says(tmp_path: Path) -> None:
    path = tmp_path / "v.dts"
    header = write_volume(path, FACTS, BLOCKS)
    assert path.read_bytes()[:144] == header.to_bytes()
    assert (header.num_samples, header.num_blocks, header.total_blocks) == (3, 2, 2)
    assert (header.num_volumes, header.volume_id, header.num_classes) == (1, 0, 5)
    assert (header.max_pic_per_block, header.max_pic_area, header.pic_alignment) == (2, 99, 64)
    assert header.total_bytes == path.stat().st_size == 3 * BLOCK_BYTES
    assert header.compression_ratio == 3 * BLOCK_BYTES / 1000


def test_the_checksum_covers_the_blocks(tmp_path: Path) -> None:
    path = tmp_path / "v.dts"
    header = write_volume(path, FACTS, BLOCKS)
    raw = path.read_bytes()
    assert header.crc_code == zlib.crc32(raw[BLOCK_BYTES:])
    assert not any(raw[144:BLOCK_BYTES])


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write_volume(tmp_path / "v.dts", FACTS, BLOCKS)
    assert scan(tmp_path).counts.tolist() == [2, 1]


def test_a_destination_that_exists_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "v.dts"
    path.write_text("mine")
    with pytest.raises(PackError, match=r"v\.dts exists already"):
        write_volume(path, FACTS, BLOCKS)
    assert path.read_text() == "mine"


def failing(error: BaseException) -> Iterator[Samples]:
    yield BLOCKS[0]
    raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("x"), PackError("x")])
def test_whatever_stops_it_only_its_own_file_is_removed(
    tmp_path: Path, error: BaseException
) -> None:
    (tmp_path / ".v.dts.0123.part").touch()
    with pytest.raises(type(error)):
        write_volume(tmp_path / "v.dts", FACTS, failing(error))
    assert [path.name for path in tmp_path.iterdir()] == [".v.dts.0123.part"]


def test_a_full_disk_is_a_pack_error(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(PackError, match=r"could not be written: .*No space left"):
        write_volume(tmp_path / "v.dts", FACTS, failing(full))
    assert not list(tmp_path.iterdir())


def test_space_is_checked_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=3 * BLOCK_BYTES - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: usage)
    with pytest.raises(PackError, match="50331647 bytes free, the volume takes 50331648"):
        write_volume(tmp_path / "v.dts", FACTS, BLOCKS)


def test_a_missing_folder_is_a_pack_error(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="none is no folder"):
        write_volume(tmp_path / "none" / "v.dts", FACTS, BLOCKS)
