import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dtsflow.errors import BlockError
from dtsflow.testing import damage, write_block_set, write_block_volume
from dtsflow.volume.datasets.config import Dts
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format import file as volume_file
from dtsflow.volume.format.header import BLOCK_BYTES

BLOCKS = [[(b"a", 0), (b"b", 4)], [], [(b"c", 1)]]


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    return write_block_volume(tmp_path / "x.dts", BLOCKS)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The volumes whose blocks were looked at, one entry a turn."""
    seen: list[Path] = []
    scan_turn = volume_file._scan_turn

    def recording(path: Path, *rest: object) -> object:
        seen.append(path)
        return scan_turn(path, *rest)  # type: ignore[arg-type]  # as it was asked

    monkeypatch.setattr(volume_file, "_scan_turn", recording)
    return seen


def same(one: VolumeSet, other: VolumeSet) -> bool:
    return (
        np.array_equal(one.counts, other.counts)
        and one.num_classes == other.num_classes
        and one.fingerprint() == other.fingerprint()
    )


def kept(cache: Path) -> Path:
    (path,) = cache.iterdir()
    return path


def test_a_second_scan_looks_at_no_block(volume: Path, tmp_path: Path, turns: list[Path]) -> None:
    plain, first = scan(volume), scan(volume, tmp_path / "cache")
    turns.clear()
    second = Dts(path=str(volume)).scan(tmp_path / "cache")
    assert not turns
    assert same(first, plain)
    assert same(second, plain)
    assert second.num_classes == 5
    with pytest.raises(ValueError, match="read-only"):
        second.counts[0] = 7


def test_all_volumes_of_a_set_are_kept_and_found(tmp_path: Path, turns: list[Path]) -> None:
    (tmp_path / "set").mkdir()
    blocks = [[[(b"sample", number)]] for number in range(4)]
    paths = write_block_set(tmp_path / "set", "s", blocks)
    plain = scan(tmp_path / "set", tmp_path / "cache")
    assert sorted(turns) == paths
    turns.clear()
    assert same(scan(tmp_path / "set", tmp_path / "cache"), plain)
    assert not turns
    assert len(list((tmp_path / "cache").iterdir())) == 4


def test_a_copy_with_the_same_time_is_the_same_content(
    volume: Path, tmp_path: Path, turns: list[Path]
) -> None:
    first = scan(volume, tmp_path / "cache")
    turns.clear()
    copy = tmp_path / "elsewhere.dts"
    volume.rename(copy)
    assert same(scan(copy, tmp_path / "cache"), first)
    assert not turns


def test_a_volume_that_was_edited_is_scanned_again(
    volume: Path, tmp_path: Path, turns: list[Path]
) -> None:
    scan(volume, tmp_path / "cache")
    turns.clear()
    before = volume.stat().st_mtime_ns
    damage(volume, BLOCK_BYTES + 8 + 8 + 8, b"\x03")  # a label; the header stays as it was
    os.utime(volume, ns=(before, before + 1))
    scan(volume, tmp_path / "cache")
    assert turns == [volume]
    damage(volume, BLOCK_BYTES, b"\xff" * 64)
    os.utime(volume, ns=(before, before + 2))
    with pytest.raises(BlockError):
        scan(volume, tmp_path / "cache")
    # What was kept stays, and is still not believed of another time.
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_another_header_or_size_is_another_entry(volume: Path, tmp_path: Path) -> None:
    scan(volume, tmp_path / "cache")
    other = write_block_volume(tmp_path / "y.dts", [*BLOCKS, [(b"d", 2)]])
    scan(other, tmp_path / "cache")
    assert len(list((tmp_path / "cache").iterdir())) == 2


@pytest.mark.parametrize("place", range(0, 40, 3))
def test_a_damaged_entry_is_written_anew(
    volume: Path, tmp_path: Path, turns: list[Path], place: int
) -> None:
    first = scan(volume, tmp_path / "cache")
    path = kept(tmp_path / "cache")
    whole = path.read_bytes()
    assert len(whole) == 8 + 8 + 4 + 3 * 4 + 4
    damage(path, min(place, 35), bytes([whole[min(place, 35)] ^ 1]))
    turns.clear()
    assert same(scan(volume, tmp_path / "cache"), first)
    assert turns == [volume]
    assert kept(tmp_path / "cache").read_bytes() == whole


@pytest.mark.parametrize("text", [b"", b"DTSSCAN1", b"x" * 35, b"x" * 36, b"x" * 1000])
def test_an_entry_that_is_none_is_written_anew(volume: Path, tmp_path: Path, text: bytes) -> None:
    first = scan(volume, tmp_path / "cache")
    path = kept(tmp_path / "cache")
    whole = path.read_bytes()
    path.write_bytes(text)
    assert same(scan(volume, tmp_path / "cache"), first)
    assert path.read_bytes() == whole


def test_an_index_needs_no_cache(tmp_path: Path, write_indexed: Callable[..., Path]) -> None:
    scan(write_indexed(tmp_path / "x.dts", BLOCKS), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_what_is_damaged_is_not_kept(volume: Path, tmp_path: Path) -> None:
    damage(volume, 3 * BLOCK_BYTES, b"\xff" * 64)
    with pytest.raises(BlockError):
        scan(volume, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_folder_that_cannot_be_written_is_said_and_costs_only_time(
    volume: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    (tmp_path / "cache").write_text("a file")
    assert same(scan(volume, tmp_path / "cache"), scan(volume))
    assert "cannot be written, so volumes are scanned each time" in caplog.text
