import hashlib
import io
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest

from dtsflow.errors import PackError, SetError, VolumeError
from dtsflow.testing import write_block_volume
from dtsflow.volume.datasets.access import read_labels
from dtsflow.volume.datasets.config import Raw
from dtsflow.volume.datasets.images import RawSet
from dtsflow.volume.datasets.pixels import RawPixels
from dtsflow.volume.format.header import Kind
from dtsflow.volume.format.pixel_file import SMALL_SETS

FILES = {"a/2.jpg": b"22", "a/1.jpg": b"1", "b/x/3.jpg": b"333", "c/4.jpg": b""}
SORTED = sorted(FILES)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in FILES.items():
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "images" / name).write_bytes(data)
    return tmp_path / "images"


def scanned(path: Path, **words: str) -> RawSet:
    found = Raw(path=str(path), **words).scan()  # type: ignore[arg-type]  # the tests' own words
    assert isinstance(found, RawSet)
    return found


def test_ids_are_places_in_the_sorted_names(folder: Path) -> None:
    found = scanned(folder)
    assert list(found.runs.names) == SORTED
    assert found.class_names == ("a", "b/x", "c")
    assert found.labels.tolist() == read_labels(found).tolist() == [0, 0, 1, 2]
    assert found.counts.tolist() == [4]
    assert [found.where(number) for number in range(4)] == [str(folder / name) for name in SORTED]
    assert found.block_of(3) == (0, 3)
    assert not found.has_blocks
    with pytest.raises(IndexError, match="sample 4 of a set with 4"):
        found.block_of(4)


def test_its_fingerprint_is_of_sorted_names_and_sizes(folder: Path, tmp_path: Path) -> None:
    state = hashlib.sha256()
    for name in SORTED:
        state.update(name.encode() + b"\0" + struct.pack("<Q", len(FILES[name])))
    assert scanned(folder).fingerprint() == state.hexdigest()
    moved = folder.rename(tmp_path / "moved")
    assert scanned(moved).fingerprint() == state.hexdigest()
    (moved / "a/1.jpg").write_bytes(b"12")
    assert scanned(moved).fingerprint() != state.hexdigest()


def test_a_tar_is_the_set_that_was_put_into_it(folder: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "images.tar", "w") as archive:
        archive.add(folder, "images")
    packed, plain = scanned(tmp_path / "images.tar"), scanned(folder)
    assert packed.fingerprint() == plain.fingerprint()
    assert packed.class_names == plain.class_names
    assert packed.where(2) == f"{tmp_path / 'images.tar'}: b/x/3.jpg"
    whole = (tmp_path / "images.tar").read_bytes()
    for number, name in enumerate(SORTED):
        start, size = packed.runs.offsets[number], packed.runs.sizes[number]
        assert whole[start : start + size] == FILES[name]
        assert packed.runs.path(number) == tmp_path / "images.tar"
        assert packed.runs.file_bytes(number) == len(whole)


def test_files_give_labels_and_class_numbers_and_count_in_the_fingerprint(
    folder: Path, tmp_path: Path
) -> None:
    classes, labels = tmp_path / "classes.txt", tmp_path / "labels.csv"
    classes.write_text("c\nb/x\na\nnone\n")
    numbered = scanned(folder, classes=str(classes))
    assert numbered.labels.tolist() == [2, 2, 1, 0]
    assert numbered.num_classes == 4
    labels.write_text("1.jpg,dog\n2.jpg,cat\n3.jpg,dog\n4.jpg,cat\n")
    labelled = scanned(folder, labels=str(labels))
    assert labelled.class_names == ("cat", "dog")
    assert labelled.labels.tolist() == [1, 0, 1, 0]
    different = {one.fingerprint() for one in (scanned(folder), numbered, labelled)}
    assert len(different) == 3


def test_labels_of_shards_count_in_the_fingerprint_and_where_they_lie_does_not(
    tmp_path: Path,
) -> None:
    def write(name: str, label: bytes) -> Path:
        (tmp_path / name).parent.mkdir()
        with tarfile.open(tmp_path / name, "w") as tar:
            for member, data in {"0.jpg": b"photo", "0.cls": label}.items():
                info = tarfile.TarInfo(member)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        return tmp_path / name

    first = scanned(write("a/s.tar", b"0"))
    assert first.where(0) == f"{tmp_path / 'a' / 's.tar'}: 0.jpg"
    assert list(first.paths) == [tmp_path / "a" / "s.tar"]
    assert scanned(write("b/other.tar", b"0")).fingerprint() == first.fingerprint()
    assert scanned(write("c/s.tar", b"1")).fingerprint() != first.fingerprint()


def test_what_lies_in_no_class_is_left_out_and_said(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "readme.txt").write_text("about")
    (folder / "a" / "link").symlink_to("nowhere")
    assert list(scanned(folder).runs.names) == SORTED
    assert f"2 entries of {folder} are left out" in caplog.text


def test_what_is_no_set_of_images_is_refused_and_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(PackError, match="nothing is not there"):
        scanned(tmp_path / "nothing")
    flat = tmp_path / "flat"
    flat.mkdir()
    (flat / "1.jpg").write_bytes(b"1")
    with pytest.raises(SetError, match=r"no image that has a label .* \(1 others"):
        scanned(flat)
    volume = write_block_volume(folder / "x.dts", [[(b"a", 0)]])
    for path in (volume, folder):
        with pytest.raises(SetError, match=r"names DTS volumes.*volume=dts"):
            scanned(path)


def cifar(folder: Path, samples: int = 3) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """The test part of CIFAR-10 as published; its records."""
    rng = np.random.default_rng(0)
    records = rng.integers(0, 256, (samples, 3073), np.uint8)
    records[:, 0] %= 10
    folder.mkdir(exist_ok=True)
    (folder / "test_batch.bin").write_bytes(records.tobytes())
    return records


def test_public_files_of_a_pixel_set_are_one(tmp_path: Path) -> None:
    records = cifar(tmp_path)
    found = Raw(path=str(tmp_path), split="test").scan()
    assert isinstance(found, RawPixels)
    assert found.kind is Kind.CIFAR10
    assert found.layout == "pixels"
    assert found.counts.tolist() == [3]
    assert read_labels(found).tolist() == records[:, 0].tolist()
    assert found.class_names == SMALL_SETS[Kind.CIFAR10].class_names
    assert found.block_of(2) == (0, 2)
    assert found.where(2) == f"{tmp_path} test sample 2"
    planes = records[:, 1:].reshape(3, 3, 1024).transpose(0, 2, 1).reshape(3, 3072)
    assert np.array_equal(found.load().pixels, planes)
    with pytest.raises(IndexError):
        found.block_of(3)


def test_a_pixel_set_that_changed_since_the_plan_is_refused(tmp_path: Path) -> None:
    cifar(tmp_path)
    found = Raw(path=str(tmp_path), split="test").scan()
    assert isinstance(found, RawPixels)
    cifar(tmp_path, samples=4)
    assert Raw(path=str(tmp_path), split="test").scan().fingerprint() != found.fingerprint()
    with pytest.raises(SetError, match="changed: its test part is not the one that was planned"):
        found.load()
    (tmp_path / "test_batch.bin").unlink()
    with pytest.raises(VolumeError, match="changed"):
        found.load()


def test_a_pixel_set_brings_its_own_labels(tmp_path: Path) -> None:
    cifar(tmp_path)
    with pytest.raises(SetError, match="holds CIFAR10 files, which bring their own"):
        Raw(path=str(tmp_path), split="test", classes="names.txt").scan()
    with pytest.raises(PackError, match=r"no data_batch_1\.bin"):
        Raw(path=str(tmp_path)).scan()
