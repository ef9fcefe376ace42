import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dtsflow.errors import DecodeError, SetError
from dtsflow.testing import damage, jpeg, write_block_set, write_block_volume, write_small_set
from dtsflow.volume.format.extension import EXTENSION_OFFSET, Extension, extension_bytes
from dtsflow.volume.format.header import BLOCK_BYTES, RECORD, Kind
from dtsflow.volume.format.manifest import manifest_path
from dtsflow.volume.verifying.report import Problem, Report
from dtsflow.volume.verifying.verify import verify

WriteIndexed = Callable[..., Path]

BLOCKS = [
    [(jpeg(40 + i, 30, seed=i), i % 3) for i in range(6)],
    [(jpeg(50, 20 + i, seed=10 + i), i % 3) for i in range(5)],
]
SIZE = 3 * BLOCK_BYTES
SMALL = [Kind.MNIST, Kind.CIFAR10, Kind.CIFAR100]
FREE = ("is_training", "compress_level", "val_set_prep")  # several values are right
GUESSES = ("num_classes", "max_pic_area", "is_training", "val_set_prep", "crc_code")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory, write_indexed: WriteIndexed) -> Path:
    """A healthy volume; a test that damages it mends it again."""
    return write_indexed(tmp_path_factory.mktemp("packed") / "x_train_lv0.dts", BLOCKS)


@pytest.fixture
def indexed(tmp_path: Path, packed: Path) -> Path:
    shutil.copy(manifest_path(packed), tmp_path)
    return Path(shutil.copy(packed, tmp_path))


@pytest.fixture(scope="module")
def unindexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A healthy volume without an index; a test that damages it mends it again."""
    return write_block_volume(tmp_path_factory.mktemp("plain") / "x_train_lv0.dts", BLOCKS)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return write_block_volume(tmp_path / "plain_train_lv0.dts", BLOCKS)


def flip(path: Path, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ (1 << bit % 8)]))


def parts(report: Report) -> set[str]:
    return {one.part if one.block is None else f"block {one.block}" for one in report.problems}


def only(report: Report) -> Problem:
    (problem,) = report.problems
    return problem


def index_end(path: Path) -> int:
    with path.open("rb") as file:
        file.seek(EXTENSION_OFFSET)
        return EXTENSION_OFFSET + extension_bytes(file.read(32), path)


def place_of(path: Path, field: str) -> int:
    assert path.is_file()
    return int(RECORD.fields[field][1])  # type: ignore[index]  # it has fields


def test_a_healthy_volume_is_clean(packed: Path) -> None:
    assert verify([packed]) == Report(1, 2, 11, (), ())


def test_every_level_is_clean(tmp_path: Path, write_indexed: WriteIndexed) -> None:
    for level in range(4):
        write_indexed(tmp_path / f"x_lv{level}.dts", BLOCKS, level=level)
        write_block_volume(tmp_path / f"plain_lv{level}.dts", BLOCKS, level=level)
    assert verify([tmp_path]).problems == ()


def test_what_upstream_wrote_is_clean(reference: Path) -> None:
    report = verify([reference])
    assert report.problems == ()
    assert (report.files, report.blocks) == (8, 9)
    assert len(report.notes) == 5


def test_small_sets_and_subsets_are_clean(tmp_path: Path) -> None:
    for kind in SMALL:
        write_small_set(tmp_path / f"{kind.value}.dts", kind, 30)
    write_small_set(tmp_path / "subset.dts", Kind.MNIST, 30, claimed=10000)
    report = verify([tmp_path])
    assert report.problems == ()
    assert (report.files, report.samples) == (4, 120)
    assert "subset" in report.notes[0]


def flips(path: Path, seed: int) -> list[int]:
    """200 bits: some all over the file, others in each of its small parts."""
    rng = random.Random(seed)
    end = index_end(path)
    spans = [(0, SIZE)] * 50 + [(0, 144)] * 40 + [(EXTENSION_OFFSET, end)] * 40
    spans += [(144, EXTENSION_OFFSET), (end, BLOCK_BYTES)] * 5
    for block in (1, 2):
        start = block * BLOCK_BYTES
        spans += [(start, start + 200)] * 15 + [(start + 4096, start + 12000)] * 15
    return [rng.randrange(8 * start, 8 * stop) for start, stop in spans]


def part_of(byte: int, end: int) -> str:
    if byte < 144:
        return "header"
    if byte >= BLOCK_BYTES:
        return f"block {byte // BLOCK_BYTES - 1}"
    return "index" if EXTENSION_OFFSET <= byte < end else "header area"


@pytest.mark.parametrize("seed", range(5))
def test_every_flipped_bit_is_found_and_its_part_named(packed: Path, seed: int) -> None:
    end = index_end(packed)
    wrong = []
    for bit in flips(packed, seed):
        flip(packed, bit)
        found = parts(verify([packed]))
        flip(packed, bit)
        if found != {part_of(bit // 8, end)}:
            wrong.append((bit, found))
    assert wrong == []


def test_a_flipped_payload_bit_names_the_sample_and_its_source(indexed: Path) -> None:
    flip(indexed, 8 * (2 * BLOCK_BYTES + 4096 + 10))
    problems = verify([indexed]).problems
    assert {one.block for one in problems} == {1}
    assert [one.sample for one in problems] == [None, 6]
    assert "class0/6.jpg" in str(problems[1])
    assert str(problems[0]).startswith(f"{indexed}: block 1: it has the CRC-32 ")


def test_in_each_of_several_damaged_blocks_the_sample_is_named(indexed: Path) -> None:
    for block in (1, 2):
        flip(indexed, 8 * (block * BLOCK_BYTES + 4096 + 10))
    named = [one for one in verify([indexed]).problems if one.sample is not None]
    assert [(one.block, one.sample) for one in named] == [(0, 0), (1, 6)]
    assert ["class0/0.jpg" in named[0].what, "class0/6.jpg" in named[1].what] == [True, True]


def test_a_damaged_block_header_still_names_the_samples_at_level_0(indexed: Path) -> None:
    damage(indexed, BLOCK_BYTES + 12, b"\xff\xff")  # where the first sample begins
    damage(indexed, BLOCK_BYTES + 4096 + 10, b"\xff\xff")
    samples = {one.sample for one in verify([indexed]).problems if "class" in one.what}
    assert samples == {0}


def test_a_flipped_header_bit_names_the_field_and_both_values(indexed: Path) -> None:
    damage(indexed, place_of(indexed, "num_samples"), b"\x0c")
    assert only(verify([indexed])).what == "num_samples is 12, it must be 11"


def test_a_header_of_rubbish_leaves_the_blocks_checked(indexed: Path) -> None:
    damage(indexed, 0, bytes(range(144)))
    flip(indexed, 8 * (BLOCK_BYTES + 5000))
    found = verify([indexed])
    assert found.blocks == 2
    assert parts(found) == {"header", "block 0"}


def test_a_damaged_index_leaves_the_blocks_checked_by_the_header(indexed: Path) -> None:
    flip(indexed, 8 * (EXTENSION_OFFSET + 40))
    assert parts(verify([indexed])) == {"index"}
    flip(indexed, 8 * (BLOCK_BYTES + 4096 + 10))
    report = verify([indexed])
    assert parts(report) == {"index", "file", "block 0"}  # the manifest knows the sample
    assert [one.sample for one in report.problems if one.part == "block"] == [0]


def test_an_index_without_a_copy_of_the_header_finds_its_damage(
    tmp_path: Path, write_indexed: WriteIndexed
) -> None:
    path = write_indexed(tmp_path / "x.dts", BLOCKS, copy=False)
    flip(path, 8 * place_of(path, "max_pic_area"))
    assert parts(verify([path])) == {"header", "index"}


def test_counts_that_differ_from_the_blocks_are_named(indexed: Path) -> None:
    with indexed.open("r+b") as file:
        file.seek(EXTENSION_OFFSET)
        extension = Extension.parse(file.read(1 << 16), indexed)
        assert extension is not None
        extension.counts[:] = (5, 6)
        file.seek(EXTENSION_OFFSET)
        file.write(extension.to_bytes())
    assert [one.what for one in verify([indexed]).problems if one.part == "index"] == [
        "it counts 5 samples in block 0, the block has 6",
        "it counts 6 samples in block 1, the block has 5",
    ]


def test_two_swapped_blocks_are_told_from_damage(indexed: Path, plain: Path) -> None:
    for path in (indexed, plain):
        with path.open("r+b") as file:
            blocks = file.read()[BLOCK_BYTES:]
            file.seek(BLOCK_BYTES)
            file.write(blocks[BLOCK_BYTES:] + blocks[:BLOCK_BYTES])
        texts = [str(one) for one in verify([path]).problems]
        assert any(text.endswith("block 0: it says it is block 1") for text in texts)
        assert any(text.endswith("block 1: it says it is block 0") for text in texts)


def test_whole_blocks_in_the_wrong_place_are_called_swapped(indexed: Path) -> None:
    with indexed.open("r+b") as file:
        blocks = file.read()[BLOCK_BYTES:]
        file.seek(BLOCK_BYTES)
        file.write(blocks[BLOCK_BYTES:] + blocks[:BLOCK_BYTES])
    whats = {(one.block, one.what) for one in verify([indexed]).problems}
    assert (0, "it holds block 1, whole: blocks were swapped") in whats
    assert (1, "it holds block 0, whole: blocks were swapped") in whats
    assert not any("class" in what for _, what in whats)


@pytest.mark.parametrize("keep", [2 * BLOCK_BYTES + 5, 3 * BLOCK_BYTES - 1])
def test_a_file_cut_mid_block_names_the_block(indexed: Path, keep: int) -> None:
    os.truncate(indexed, keep)
    report = verify([indexed])
    assert parts(report) == {"file", "block 1"}
    assert f"only {keep - 2 * BLOCK_BYTES} of its" in str(report.problems[1])


@pytest.mark.parametrize("keep", [100, 4000, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1])
def test_a_file_cut_early_names_what_is_missing(plain: Path, keep: int) -> None:
    os.truncate(plain, keep)
    report = verify([plain])
    assert not report.is_clean
    assert parts(report) <= {"header", "file", "block 0", "block 1"}
    if keep > 144:
        assert "missing" in str(report.problems[-1])


def test_something_appended_is_named(plain: Path) -> None:
    with plain.open("ab") as file:
        file.write(b"more")
    problem = only(verify([plain]))
    assert problem.part == "file"
    assert str(SIZE + 4) in problem.what


@pytest.mark.parametrize("keep", [SIZE, SIZE - 7])
def test_an_interrupted_export_is_called_that(plain: Path, keep: int) -> None:
    damage(plain, 8, bytes(136))
    os.truncate(plain, keep)
    report = verify([plain])
    assert "an interrupted export" in str(report.problems[0])
    assert parts(report) == {"header"} if keep == SIZE else {"header", "file", "block 1"}


def test_an_interrupted_export_without_blocks_is_called_that(tmp_path: Path) -> None:
    path = tmp_path / "x.dts"
    path.write_bytes(b".DTS\3\0\0\0".ljust(1000, b"\0"))
    assert "interrupted export" in only(verify([path])).what


def test_another_file_is_no_volume(tmp_path: Path) -> None:
    (tmp_path / "x.dts").write_text("It was a dark and stormy night. " * 50)
    (tmp_path / "empty.dts").touch()
    report = verify([tmp_path])
    assert [one.part for one in report.problems] == ["header", "header"]
    assert "It w" in report.problems[1].what


def fields_with_one_value(besides: tuple[str, ...]) -> list[str]:
    return [name for name in RECORD.names or () if name not in besides]


@pytest.mark.parametrize("field", fields_with_one_value(GUESSES))
def test_without_an_index_the_blocks_tell_the_header(unindexed: Path, field: str) -> None:
    bits = 8 * RECORD[field].itemsize
    start = 8 * place_of(unindexed, field)
    for bit in sorted({0, bits // 2, bits - 1}):
        flip(unindexed, start + bit)
        report = verify([unindexed])
        flip(unindexed, start + bit)
        assert parts(report) == {"header"}, (field, bit)
        assert any(one.what.startswith(f"{field} is ") for one in report.problems), field


def test_without_an_index_a_bit_of_the_checksum_is_the_headers(plain: Path) -> None:
    flip(plain, 8 * 140 + 3)
    problem = only(verify([plain]))
    assert problem.part == "header"
    assert problem.what.startswith("crc_code is ")


def test_without_an_index_a_label_that_is_no_class_is_the_headers(plain: Path) -> None:
    damage(plain, place_of(plain, "num_classes"), b"\2")
    assert only(verify([plain])).what.startswith("num_classes is 2")


def test_without_an_index_every_flip_in_the_blocks_is_found(unindexed: Path) -> None:
    rng = random.Random(5)
    for _ in range(25):
        bit = rng.randrange(8 * BLOCK_BYTES, 8 * SIZE)
        flip(unindexed, bit)
        found = parts(verify([unindexed]))
        flip(unindexed, bit)
        # Zeros have one value and name the block; a payload has any.
        assert found in ({"file"}, {"file", f"block {bit // 8 // BLOCK_BYTES - 1}"})


FIRST = len(BLOCKS[1][0][0])  # bytes of the second block's first sample
assert FIRST % 64  # so it has padding


@pytest.mark.parametrize(
    ("place", "data", "sample", "what"),
    [
        (0, b"LV2B", None, "it starts with b'LV2B', a level 0 block with b'LV0B'"),
        (4, b"\7", None, "it says it is block 7"),
        (8, b"\xff\xff", None, "it counts 65535 samples, its header holds 340"),
        (12 + 4, b"\1", 7, "starts at byte "),
        (12 + 4 * 5, b"\xff\xff", 7, "starts at byte "),
        (12 + 8 * 5 - 1, b"\xff", 10, "ends at byte "),
        (12 + 8 * 5 + 4, b"\5", 7, "its label is 5, there are 3 classes"),
        (12 + 12 * 5, b"\1", None, "bytes 72 to 72 of its header are not all zero"),
        (4095, b"\1", None, "bytes 4095 to 4095 of its header are not all zero"),
        (4096 + FIRST, b"\1", 6, "the padding behind it is not zero"),
        (BLOCK_BYTES - 1, b"\1", None, "bytes 16777215 to 16777215 behind its samples"),
    ],
)
def test_without_an_index_a_block_is_held_to_its_layout(
    plain: Path, place: int, data: bytes, sample: int | None, what: str
) -> None:
    damage(plain, 2 * BLOCK_BYTES + place, data)
    report = verify([plain])
    found = [(one.block, one.sample) for one in report.problems if one.what.startswith(what)]
    assert found == [(1, sample)]
    assert parts(report) == {"block 1", "file"}


@pytest.mark.parametrize("place", [144, 4095, 4096, 4100, 4128, BLOCK_BYTES - 1])
def test_a_byte_in_an_empty_header_area_is_named(plain: Path, place: int) -> None:
    damage(plain, place, b"\1")
    problem = only(verify([plain]))
    assert problem.part == "header area"
    assert f"byte {place} " in problem.what


def test_labels_must_be_classes(indexed: Path, tmp_path: Path) -> None:
    damage(indexed, BLOCK_BYTES + 12 + 8 * 6 + 4 * 2, b"\7")
    assert any("label is 7, there are 3" in one.what for one in verify([indexed]).problems)
    path = write_small_set(tmp_path / "mnist_test.dts", Kind.MNIST, 9)
    damage(path, 256 + 4, b"\x0b")
    report = verify([path])
    assert parts(report) == {"file"}
    assert report.problems[1].sample == 4


def test_the_manifest_is_held_against_index_and_samples(indexed: Path) -> None:
    listed = manifest_path(indexed)
    whole = listed.read_text()
    listed.write_text(whole.replace("class0/0.jpg", "class0/9.jpg"))
    assert "SHA-256" in only(verify([indexed])).what
    listed.write_text("".join(whole.splitlines(keepends=True)[:-1]))
    assert {one.part for one in verify([indexed]).problems} == {"manifest"}
    assert any("10 lines, the volume 11" in one.what for one in verify([indexed]).problems)
    listed.unlink()
    report = verify([indexed])
    assert report.is_clean
    assert "manifest" in report.notes[0]


def test_an_image_that_does_not_decode_is_named(plain: Path) -> None:
    bad = BLOCKS[1][3][0]

    def decode(data: memoryview) -> None:
        if data == bad:
            raise DecodeError("it is ugly")

    problem = only(verify([plain], decode=decode))
    assert (problem.block, problem.sample) == (1, 9)
    assert problem.what == "cannot be decoded: it is ugly"


def test_workers_change_nothing(indexed: Path) -> None:
    flip(indexed, 8 * (BLOCK_BYTES + 5000))
    assert verify([indexed], workers=1) == verify([indexed], workers=3)


def test_progress_counts_blocks_of_all_files(plain: Path) -> None:
    write_small_set(plain.parent / "mnist_test.dts", Kind.MNIST, 9)
    seen: list[tuple[int, int]] = []
    verify([plain.parent], progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("kind", SMALL)
def test_every_flipped_bit_of_a_small_set_is_found(tmp_path: Path, kind: Kind) -> None:
    path = write_small_set(tmp_path / "x.dts", kind, 12)
    rng = random.Random(kind.value)
    size = path.stat().st_size
    for bit in [rng.randrange(8 * 256, 8 * size) for _ in range(60)]:
        flip(path, bit)
        found = parts(verify([path]))
        flip(path, bit)
        assert found == {"file"}, bit
    for bit in [rng.randrange(8 * 144, 8 * 256) for _ in range(10)]:
        flip(path, bit)
        assert parts(verify([path])) == {"header area"}, bit
        flip(path, bit)


@pytest.mark.parametrize("kind", SMALL)
def test_every_field_of_a_small_header_is_checked(tmp_path: Path, kind: Kind) -> None:
    path = write_small_set(tmp_path / "x.dts", kind, 12)
    for field in fields_with_one_value(FREE):
        for bit in range(8 * RECORD[field].itemsize):
            flip(path, 8 * place_of(path, field) + bit)
            report = verify([path])
            flip(path, 8 * place_of(path, field) + bit)
            assert parts(report) == {"header"}, (field, bit)
            assert all(one.what.startswith(f"{field} is ") for one in report.problems)
    for field, bit in (("is_training", 1), ("val_set_prep", 5), ("compress_level", 30)):
        flip(path, 8 * place_of(path, field) + bit)
        assert parts(verify([path])) == {"header"}
        flip(path, 8 * place_of(path, field) + bit)


@pytest.mark.parametrize("keep", [200, 256, 256 + 785 * 3, 256 + 785 * 12 - 1])
def test_a_small_set_cut_short_is_named(tmp_path: Path, keep: int) -> None:
    path = write_small_set(tmp_path / "x.dts", Kind.MNIST, 12)
    os.truncate(path, keep)
    assert "file" in parts(verify([path]))


def test_a_set_must_be_whole_where_its_folder_is_named(tmp_path: Path) -> None:
    volumes = write_block_set(tmp_path, "x", [BLOCKS[:1], BLOCKS[1:], BLOCKS[:1]])
    write_small_set(tmp_path / "mnist_test.dts", Kind.MNIST, 9)  # no part of it
    assert verify([tmp_path]).problems == ()
    volumes[1].unlink()
    problem = only(verify([tmp_path]))
    assert problem.part == "set"
    assert "missing: 00002-of-00003" in problem.what
    assert verify([volumes[0]]).problems == ()
    damage(volumes[0], 0, b"xxxx")
    assert verify([tmp_path / "x-*.dts"]).problems[0].part == "header"


def test_nothing_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SetError, match="no volume found"):
        verify([tmp_path / "x.dts"])
