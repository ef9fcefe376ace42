import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dtsflow.errors import VolumeError
from dtsflow.testing import damage, jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.extension import EXTENSION_OFFSET
from dtsflow.volume.format.header import BLOCK_BYTES, RECORD, Kind
from dtsflow.volume.format.manifest import manifest_path
from dtsflow.volume.packing.options import Encoding, Level, Packing
from dtsflow.volume.packing.pack import pack
from dtsflow.volume.repairing.patch import move
from dtsflow.volume.repairing.repair import Repaired, repair

WriteIndexed = Callable[..., Path]

BLOCKS = [
    [(jpeg(40 + i, 30, seed=i), i % 3) for i in range(6)],
    [(jpeg(50, 20 + i, seed=10 + i), i % 3) for i in range(5)],
    [(jpeg(60, 20 + i, seed=20 + i), i % 3) for i in range(4)],
]
PAYLOAD = 4096 + 10


@pytest.fixture
def indexed(tmp_path: Path, write_indexed: WriteIndexed) -> Path:
    return write_indexed(tmp_path / "x_train_lv0.dts", BLOCKS)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return write_block_volume(tmp_path / "plain_train_lv0.dts", BLOCKS)


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    for number, (data, label) in enumerate(one for block in BLOCKS for one in block):
        (folder / f"class{label}").mkdir(parents=True, exist_ok=True)
        (folder / f"class{label}" / f"{number}.jpg").write_bytes(data)
    return folder


def copy_of(path: Path) -> Path:
    return Path(shutil.copy(path, path.with_suffix(".good")))


def block(number: int) -> int:
    return (1 + number) * BLOCK_BYTES


def swap(path: Path, order: list[int]) -> None:
    whole = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(BLOCK_BYTES)
        for k in order:
            file.write(whole[block(k) : block(k + 1)])


def is_mended(path: Path, good: Path, repaired: Repaired) -> bool:
    return (
        repaired.report.is_clean
        and repaired.left == ()
        and repaired.done != ()
        and path.read_bytes() == good.read_bytes()
    )


def is_left(path: Path, before: bytes, repaired: Repaired) -> bool:
    """Whether nothing was done, and that was said."""
    return (
        not repaired.report.is_clean
        and repaired.left != ()
        and repaired.done == ()
        and path.read_bytes() == before
    )


def test_a_healthy_volume_is_left_alone(indexed: Path, plain: Path) -> None:
    for path in (indexed, plain):
        before = path.read_bytes()
        repaired = repair(path)
        assert (repaired.done, repaired.left) == ((), ())
        assert repaired.report.is_clean
        assert path.read_bytes() == before


def test_a_header_is_taken_from_the_index(indexed: Path) -> None:
    good = copy_of(indexed)
    damage(indexed, 0, b"x" * 144)
    damage(indexed, 1000, b"rubbish")
    assert is_mended(indexed, good, repair(indexed))


@pytest.mark.parametrize("field", ["magic", "dataset_type", "num_samples", "total_bytes"])
def test_without_an_index_the_blocks_tell_the_header(plain: Path, field: str) -> None:
    good = copy_of(plain)
    damage(plain, RECORD.fields[field][1], b"\3")  # type: ignore[index]  # it has fields
    assert is_mended(plain, good, repair(plain))


def test_without_an_index_a_header_is_not_guessed(plain: Path) -> None:
    good = copy_of(plain)
    damage(plain, 16, b"\7")  # is_training
    before = plain.read_bytes()
    assert is_left(plain, before, repair(plain))
    assert is_mended(plain, good, repair(plain, good=good))


def test_without_an_index_data_in_doubt_prove_no_header(plain: Path) -> None:
    good = copy_of(plain)
    damage(plain, 52, b"\7")
    damage(plain, block(1) + PAYLOAD, b"damage")
    before = plain.read_bytes()
    assert is_left(plain, before, repair(plain))
    assert is_mended(plain, good, repair(plain, good=good))


def test_damaged_blocks_are_taken_from_a_copy(indexed: Path, plain: Path) -> None:
    for path in (indexed, plain):
        good = copy_of(path)
        damage(path, block(0) + PAYLOAD, b"damage")
        damage(path, block(2), b"damage")
        repaired = repair(path, good=good)
        assert [what.split(":")[0] for what in repaired.done] == ["block 0", "block 2"]
        assert is_mended(path, good, repaired)


def test_two_damaged_copies_may_make_one_good(indexed: Path) -> None:
    good, other = copy_of(indexed), Path(shutil.copy(indexed, indexed.with_suffix(".other")))
    damage(indexed, block(0) + PAYLOAD, b"damage")
    damage(other, block(1) + PAYLOAD, b"damage")
    assert is_mended(indexed, good, repair(indexed, good=other))


def test_damaged_blocks_are_laid_out_again_from_the_sources(indexed: Path, sources: Path) -> None:
    good = copy_of(indexed)
    damage(indexed, block(0) + PAYLOAD, b"damage")
    damage(indexed, block(2), b"damage")
    assert is_mended(indexed, good, repair(indexed, sources=sources))


def test_sources_that_changed_or_went_are_named(indexed: Path, sources: Path) -> None:
    damage(indexed, block(0) + PAYLOAD, b"damage")
    damage(indexed, block(2), b"damage")
    (sources / "class0" / "0.jpg").write_bytes(b"another")
    (sources / "class0" / "11.jpg").unlink()
    before = indexed.read_bytes()
    repaired = repair(indexed, sources=sources)
    assert is_left(indexed, before, repaired)
    assert "0.jpg is not the image that was packed" in repaired.left[0]
    assert "11.jpg" in repaired.left[1]


def test_a_manifest_cannot_name_a_file_elsewhere(indexed: Path, sources: Path) -> None:
    damage(indexed, block(0) + PAYLOAD, b"damage")
    listed = manifest_path(indexed)
    for name in ("/etc/passwd", "../class0/0.jpg"):
        listed.write_text(listed.read_text().replace("class0/0.jpg", name))
        assert name in repair(indexed, sources=sources).left[0]
        listed.write_text(listed.read_text().replace(name, "class0/0.jpg"))
    listed.write_text("[]\n")
    assert "manifest" in repair(indexed, sources=sources).left[0]
    listed.unlink()
    assert "manifest" in repair(indexed, sources=sources).left[0]


@pytest.mark.parametrize("level", [0, 3])
def test_blocks_are_packed_again_from_the_sources(tmp_path: Path, level: Level) -> None:
    photos = tmp_path / "photos"
    for number in range(6):
        path = photos / "ab"[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(500, 450, seed=number))
    path = pack(photos, tmp_path, Packing(split="train", encoding=Encoding(level=level))).path
    good = copy_of(path)
    damage(path, block(0) + 20000, b"damage")
    assert is_mended(path, good, repair(path, sources=photos))


def test_a_re_encoded_level_is_left_where_nothing_tells_how(
    tmp_path: Path, write_indexed: WriteIndexed, sources: Path
) -> None:
    path = write_indexed(tmp_path / "x_train_lv3.dts", BLOCKS, level=3)
    damage(path, block(1) + 20000, b"damage")
    assert "level 3 is not recorded" in repair(path, sources=sources).left[0]


def test_a_file_cut_short_gets_its_blocks_again(indexed: Path, plain: Path, sources: Path) -> None:
    for path, size in ((indexed, block(2) + 99), (indexed, block(1)), (plain, block(0) + 5)):
        good = copy_of(path)
        os.truncate(path, size)
        assert is_mended(path, good, repair(path, good=good))
    good = copy_of(indexed)
    os.truncate(indexed, block(1) + 7)
    assert is_mended(indexed, good, repair(indexed, sources=sources))


def test_what_was_appended_is_cut_off(indexed: Path) -> None:
    good = copy_of(indexed)
    with indexed.open("ab") as file:
        file.write(b"more")
    assert is_mended(indexed, good, repair(indexed))


@pytest.mark.parametrize("order", [[1, 0, 2], [1, 2, 0], [2, 1, 0]])
def test_swapped_blocks_are_put_back(indexed: Path, plain: Path, order: list[int]) -> None:
    for path in (indexed, plain):
        good = copy_of(path)
        swap(path, order)
        assert is_mended(path, good, repair(path))


def test_a_block_that_lies_elsewhere_is_moved_before_it_is_overwritten(indexed: Path) -> None:
    good = copy_of(indexed)
    swap(indexed, [2, 0, 0])
    damage(indexed, block(2) + PAYLOAD, b"damage")  # so block 1 is nowhere
    repaired = repair(indexed)
    assert indexed.read_bytes()[block(2) :] == good.read_bytes()[block(2) :]
    assert indexed.read_bytes()[block(0) : block(1)] == good.read_bytes()[block(0) : block(1)]
    assert [what[:8] for what in repaired.left] == ["block 1:"]


def test_places_are_filled_in_an_order_that_loses_nothing() -> None:
    now = {0: b"1", 1: b"2", 2: b"0", 3: b"4", 4: b"x", 5: b"6", 6: b"5"}
    wanted = {k: b"%d" % k for k in (0, 1, 2, 4, 5, 6)}
    sources = {
        k: next(j for j, data in now.items() if data == wanted[k]) for k in (0, 1, 2, 4, 5, 6)
    }
    move(sources, lambda k: now[k], now.__setitem__)
    assert {k: now[k] for k in wanted} == wanted


def test_an_index_is_taken_from_a_copy(indexed: Path) -> None:
    good = copy_of(indexed)
    for place, data in ((EXTENSION_OFFSET + 60, b"rub"), (EXTENSION_OFFSET, bytes(32))):
        damage(indexed, place, data)
        before = indexed.read_bytes()
        assert is_left(indexed, before, repair(indexed))
        assert is_mended(indexed, good, repair(indexed, good=good))


def test_an_index_and_blocks_are_taken_from_a_copy_together(indexed: Path) -> None:
    good = copy_of(indexed)
    damage(indexed, EXTENSION_OFFSET + 60, b"rubbish")
    damage(indexed, block(1) + PAYLOAD, b"damage")
    assert is_mended(indexed, good, repair(indexed, good=good))


def test_another_volume_is_no_copy(indexed: Path, plain: Path, tmp_path: Path) -> None:
    other = write_block_volume(tmp_path / "other.dts", BLOCKS[1:] + BLOCKS[:1])
    for path in (indexed, plain):
        damage(path, block(1) + PAYLOAD, b"damage")
        before = path.read_bytes()
        assert is_left(path, before, repair(path, good=other))


def test_a_damaged_copy_proves_nothing_without_an_index(plain: Path) -> None:
    good = copy_of(plain)
    damage(plain, block(1) + PAYLOAD, b"damage")
    damage(good, block(2) + PAYLOAD, b"damage")
    before = plain.read_bytes()
    assert is_left(plain, before, repair(plain, good=good))


def test_a_dry_run_says_it_and_changes_nothing(indexed: Path) -> None:
    good = copy_of(indexed)
    damage(indexed, 0, b"x" * 144)
    damage(indexed, block(1) + PAYLOAD, b"damage")
    with indexed.open("ab") as file:
        file.write(b"more")
    before = indexed.read_bytes()
    repaired = repair(indexed, good=good, dry_run=True)
    assert indexed.read_bytes() == before
    assert len(repaired.done) == 3
    assert repaired.left == ()
    assert not repaired.report.is_clean
    assert repair(indexed, good=good).done == repaired.done


@pytest.mark.parametrize("kind", [Kind.MNIST, Kind.CIFAR10])
def test_small_sets_are_mended_by_their_data_or_a_copy(tmp_path: Path, kind: Kind) -> None:
    path = write_small_set(tmp_path / "x.dts", kind, 12)
    good = copy_of(path)
    damage(path, 8, b"\1")
    damage(path, 52, b"\1")
    damage(path, 200, b"\1")
    assert is_mended(path, good, repair(path))
    damage(path, 300, b"rubbish")
    damage(path, 20, b"\xff")
    before = path.read_bytes()
    assert is_left(path, before, repair(path))
    assert is_mended(path, good, repair(path, good=good))
    os.truncate(path, 999)
    assert is_mended(path, good, repair(path, good=good))
    other = write_small_set(tmp_path / "other.dts", kind, 12, seed=1)
    damage(path, 300, b"rubbish")
    assert is_left(path, path.read_bytes(), repair(path, good=other))


def test_what_cannot_be_mended_at_all_is_refused(tmp_path: Path, plain: Path) -> None:
    text = tmp_path / "text.dts"
    text.write_text("Once upon a time " * 99)
    with pytest.raises(VolumeError, match="no volume"):
        repair(text)
    with pytest.raises(VolumeError, match="is no file"):
        repair(tmp_path / "nothing.dts")
    with pytest.raises(VolumeError, match="itself"):
        repair(plain, good=plain)
    with pytest.raises(VolumeError, match="is no file"):
        repair(plain, good=tmp_path)
    with pytest.raises(VolumeError, match="is no folder"):
        repair(plain, sources=text)
