import gzip
import io
import struct
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from dtsflow.errors import HeaderError, PackError
from dtsflow.testing import damage, write_block_volume, write_small_set
from dtsflow.volume.format.header import Kind
from dtsflow.volume.format.pixel_file import SMALL_SETS
from dtsflow.volume.source import pixel_files
from dtsflow.volume.source.pixel_files import PixelSet, find_pixels


def made(kind: Kind, samples: int, seed: int = 0) -> PixelSet:
    rng = np.random.default_rng(seed)
    layout = SMALL_SETS[kind]
    labels = rng.integers(0, len(layout.class_names), samples, np.uint8)
    return PixelSet(kind, labels, rng.integers(0, 256, (samples, layout.sample_bytes), np.uint8))


def idx_labels(pixels: PixelSet) -> bytes:
    return struct.pack(">II", 2049, len(pixels.labels)) + pixels.labels.tobytes()


def idx_images(pixels: PixelSet) -> bytes:
    return struct.pack(">IIII", 2051, len(pixels.labels), 28, 28) + pixels.pixels.tobytes()


def records(pixels: PixelSet) -> bytes:
    planes = pixels.pixels.reshape(-1, 1024, 3).transpose(0, 2, 1).reshape(-1, 3072)
    labels = pixels.labels[:, None]
    if pixels.kind is Kind.CIFAR100:
        labels = np.hstack([labels // 5, labels])
    return np.hstack([labels, planes]).tobytes()


def mnist(pixels: PixelSet, prefix: str = "t10k", mark: str = "-") -> dict[str, bytes]:
    return {
        f"{prefix}-images{mark}idx3-ubyte": idx_images(pixels),
        f"{prefix}-labels{mark}idx1-ubyte": idx_labels(pixels),
    }


def fill(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def tar(path: Path, files: Mapping[str, bytes], top: str = "set/") -> Path:
    with tarfile.open(path, "w:gz" if path.suffix != ".tar" else "w") as archive:
        folder = tarfile.TarInfo(top)
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, data in files.items():
            member = tarfile.TarInfo(top + name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def same(found: PixelSet | None, wanted: PixelSet) -> bool:
    assert found is not None
    assert found.kind is wanted.kind
    return np.array_equal(found.labels, wanted.labels) and np.array_equal(
        found.pixels, wanted.pixels
    )


@pytest.mark.parametrize("mark", ["-", "."])
@pytest.mark.parametrize("packed", [False, True])
def test_idx_files_are_read_plain_or_packed(tmp_path: Path, mark: str, packed: bool) -> None:  # noqa: FBT001
    train, test = made(Kind.MNIST, 5), made(Kind.MNIST, 3, seed=1)
    files = mnist(train, "train", mark) | mnist(test, "t10k", mark)
    if packed:
        files = {f"{name}.gz": gzip.compress(data) for name, data in files.items()}
    fill(tmp_path, files)
    assert same(find_pixels(tmp_path, "train"), train)
    assert same(find_pixels(tmp_path, "test"), test)


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tgz"])
def test_a_tar_of_idx_files_is_read(tmp_path: Path, suffix: str) -> None:
    pixels = made(Kind.MNIST, 4)
    files = {f"{name}.gz": gzip.compress(data) for name, data in mnist(pixels).items()}
    assert same(find_pixels(tar(tmp_path / f"m{suffix}", files), "test"), pixels)


def test_the_batches_of_cifar10_follow_each_other(tmp_path: Path) -> None:
    parts = [made(Kind.CIFAR10, 2 + number, seed=number) for number in range(5)]
    files = {f"data_batch_{i + 1}.bin": records(part) for i, part in enumerate(parts)}
    whole = PixelSet(
        Kind.CIFAR10,
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.pixels for part in parts]),
    )
    assert same(find_pixels(fill(tmp_path, files), "train"), whole)
    archive = tar(tmp_path / "cifar-10-binary.tar.gz", files, "cifar-10-batches-bin/")
    assert same(find_pixels(archive, "train"), whole)


def test_planes_become_interleaved_pixels(tmp_path: Path) -> None:
    record = bytes([7]) + bytes([1]) * 1024 + bytes([2]) * 1024 + bytes([3]) * 1024
    found = find_pixels(fill(tmp_path, {"test_batch.bin": record}), "test")
    assert found is not None
    assert found.labels.tolist() == [7]
    assert found.pixels.reshape(32, 32, 3)[5, 6].tolist() == [1, 2, 3]
    assert found.pixels[0, :6].tolist() == [1, 2, 3, 1, 2, 3]


def test_of_cifar100_the_fine_label_is_kept(tmp_path: Path) -> None:
    pixels = made(Kind.CIFAR100, 6)
    assert pixels.labels.max() > 19
    assert same(find_pixels(fill(tmp_path, {"train.bin": records(pixels)}), "train"), pixels)
    archive = tar(tmp_path / "c.tar", {"test.bin": records(pixels)}, "cifar-100-binary/")
    assert same(find_pixels(archive, "test"), pixels)


@pytest.mark.parametrize("kind", [Kind.MNIST, Kind.CIFAR10, Kind.CIFAR100])
def test_a_volume_gives_its_samples_back(tmp_path: Path, kind: Kind) -> None:
    path = write_small_set(tmp_path / "s.dts", kind, 7, claimed=60000)
    found = find_pixels(path, "train")
    assert found is not None
    assert path.read_bytes()[256:] == found.labels.tobytes() + found.pixels.tobytes()
    assert (found.kind, len(found.labels)) == (kind, 7)


def test_what_is_no_small_set_is_left_to_others(tmp_path: Path) -> None:
    fill(tmp_path, {"a.jpg": b"x", "train": b"no pickle of CIFAR: two more make one"})
    (tmp_path / "test").mkdir()
    (tmp_path / "meta").mkdir()
    assert find_pixels(tmp_path, "val") is None
    assert find_pixels(tmp_path / "a.jpg", "train") is None
    assert find_pixels(tmp_path / "none", "train") is None
    assert find_pixels(write_block_volume(tmp_path / "v.dts", [[(b"x", 0)]]), "val") is None
    assert find_pixels(tar(tmp_path / "v.tar", {"a.jpg": b"x"}), "train") is None
    assert find_pixels(tar(tmp_path / "v.tar.gz", {"a.jpg": b"x"}), "train") is None
    assert find_pixels(fill(tmp_path, {"w.tar": b"no tar"}) / "w.tar", "train") is None


def test_a_large_tar_of_something_else_is_not_read_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pixel_files, "_MOST_BYTES", 1 << 16)
    path = tar(tmp_path / "v.tar", {"a": bytes(1 << 17), "train.bin": b"never reached"})
    assert find_pixels(path, "train") is None
    path = tar(tmp_path / "w.tar", {"train.bin": bytes(1 << 17)})
    with pytest.raises(PackError, match=r"w\.tar cannot be read: no small set has over 65536"):
        find_pixels(path, "train")


def test_there_is_no_val_part(tmp_path: Path) -> None:
    write_small_set(tmp_path / "m.dts", Kind.MNIST, 2)
    for path in (fill(tmp_path, mnist(made(Kind.MNIST, 1))), tmp_path / "m.dts"):
        with pytest.raises(PackError, match="have train and test and no val"):
            find_pixels(path, "val")


@pytest.mark.parametrize("names", [["data_batch_1"], ["test_batch"], ["train", "test", "meta"]])
def test_pickles_are_refused_unread(tmp_path: Path, names: list[str]) -> None:
    fill(tmp_path, dict.fromkeys(names, b"cos\nsystem\n(S'false'\ntR."))
    with pytest.raises(PackError, match=r"made of pickles.*Get the binary version"):
        find_pixels(tmp_path, "train")


def test_an_archive_of_pickles_is_refused(tmp_path: Path) -> None:
    for name in ("cifar-10-python.tar.gz", "cifar-100-python.tar.gz"):
        with pytest.raises(PackError, match="made of pickles"):
            find_pixels(fill(tmp_path, {name: b""}) / name, "train")
    with pytest.raises(PackError, match="made of pickles"):
        find_pixels(tar(tmp_path / "other.tar.gz", {"data_batch_1": b"x"}), "train")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    files = mnist(made(Kind.MNIST, 2))
    with pytest.raises(PackError, match=r"no train-images-idx3-ubyte \(or .*\.gz\)"):
        find_pixels(fill(tmp_path, files), "train")
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(PackError, match="no t10k-labels-idx1-ubyte"):
        find_pixels(tmp_path, "test")


def test_a_missing_batch_is_named(tmp_path: Path) -> None:
    data = records(made(Kind.CIFAR10, 1))
    files = {f"data_batch_{number}.bin": data for number in (1, 2, 3, 5)}
    with pytest.raises(PackError, match=r"no data_batch_4\.bin"):
        find_pixels(fill(tmp_path, files), "train")


def test_two_sets_in_one_folder_are_refused(tmp_path: Path) -> None:
    files = mnist(made(Kind.MNIST, 1)) | {"test.bin": records(made(Kind.CIFAR100, 1))}
    with pytest.raises(PackError, match="files of CIFAR100 and MNIST"):
        find_pixels(fill(tmp_path, files), "test")


WRONG_IDX = [
    (0, struct.pack(">I", 2050), r"labels.* starts with the number 2050, .* with 2049"),
    (4, struct.pack(">I", 4), r"labels.* cut short: it declares 4 .* has 3"),
    (4, struct.pack(">I", 2), r"labels.* declares 10 bytes and has at least 11"),
    (4, struct.pack(">I", 0), r"labels"),
    (4, b"\xff\xff\xff\xff", r"declares 4294967295 samples, .* holds 1825315"),
    (9, b"\x0a", r"labels.*: sample 1 has label 10, the set has 10 classes"),
]


@pytest.mark.parametrize(("offset", "data", "message"), WRONG_IDX)
def test_a_wrong_label_file_is_refused(
    tmp_path: Path, offset: int, data: bytes, message: str
) -> None:
    fill(tmp_path, mnist(made(Kind.MNIST, 3)))
    damage(tmp_path / "t10k-labels-idx1-ubyte", offset, data)
    with pytest.raises(PackError, match=message):
        find_pixels(tmp_path, "test")


WRONG_IMAGES = [
    (0, struct.pack(">I", 2049), r"images.* starts with the number 2049, .* with 2051"),
    (4, struct.pack(">I", 4), r"images.* counts 4 images, the labels beside it are 3"),
    (8, struct.pack(">II", 27, 29), r"images of 27 by 29, MNIST's are 28 by 28"),
]


@pytest.mark.parametrize(("offset", "data", "message"), WRONG_IMAGES)
def test_a_wrong_image_file_is_refused(
    tmp_path: Path, offset: int, data: bytes, message: str
) -> None:
    fill(tmp_path, mnist(made(Kind.MNIST, 3)))
    damage(tmp_path / "t10k-images-idx3-ubyte", offset, data)
    with pytest.raises(PackError, match=message):
        find_pixels(tmp_path, "test")


def test_an_image_file_of_another_length_is_refused(tmp_path: Path) -> None:
    files = mnist(made(Kind.MNIST, 3))
    images = files["t10k-images-idx3-ubyte"]
    for data, message in (
        (images[:-1], "cut short: it declares 2352 .* has 2351"),
        (images + b"x", "declares 2368 bytes and has at least 2369"),
        (images[:10], "cut short: it declares 16 .* has 10"),
    ):
        fill(
            tmp_path,
            {
                "t10k-images-idx3-ubyte": data,
                "t10k-labels-idx1-ubyte": files["t10k-labels-idx1-ubyte"],
            },
        )
        with pytest.raises(PackError, match=rf"t10k-images-idx3-ubyte.*{message}"):
            find_pixels(tmp_path, "test")


def test_no_sample_is_refused(tmp_path: Path) -> None:
    for name in ("t10k-labels-idx1-ubyte", "t10k-images-idx3-ubyte"):
        (tmp_path / name).write_bytes(struct.pack(">II", 2049, 0))
    with pytest.raises(PackError, match=r"labels.*holds no sample"):
        find_pixels(tmp_path, "test")
    (tmp_path / "c").mkdir()
    with pytest.raises(PackError, match=r"test\.bin holds no sample"):
        find_pixels(fill(tmp_path / "c", {"test.bin": b""}), "test")
    with pytest.raises(PackError, match="holds no sample"):
        find_pixels(write_small_set(tmp_path / "e.dts", Kind.MNIST, 0), "test")


@pytest.mark.parametrize("at", [-6, -1, 30])  # the checksum, the length, the data
def test_a_damaged_gzip_is_refused(tmp_path: Path, at: int) -> None:
    files = {f"{name}.gz": gzip.compress(data) for name, data in mnist(made(Kind.MNIST, 3)).items()}
    name = "t10k-images-idx3-ubyte.gz"
    changed = bytearray(files[name])
    changed[at] ^= 0x55
    fill(tmp_path, files | {name: bytes(changed)})
    with pytest.raises(PackError, match=r"t10k-images-idx3-ubyte\.gz"):
        find_pixels(tmp_path, "test")


def test_a_gzip_that_unpacks_to_more_than_it_declares_is_not_unpacked(tmp_path: Path) -> None:
    files = {f"{name}.gz": gzip.compress(data) for name, data in mnist(made(Kind.MNIST, 1)).items()}
    bomb = idx_images(made(Kind.MNIST, 1)) + bytes(1 << 26)
    files["t10k-images-idx3-ubyte.gz"] = gzip.compress(bomb, 1)
    with pytest.raises(PackError, match="declares 800 bytes and has at least"):
        find_pixels(fill(tmp_path, files), "test")


def test_a_damaged_packed_tar_is_refused(tmp_path: Path) -> None:
    path = tar(tmp_path / "c.tar.gz", {"test.bin": records(made(Kind.CIFAR100, 3))})
    whole = path.read_bytes()
    for at in (-6, len(whole) // 2, 60):
        changed = bytearray(whole)
        changed[at] ^= 0x55
        path.write_bytes(changed)
        with pytest.raises(PackError, match=r"c\.tar\.gz"):
            find_pixels(path, "test")
    for keep in (5, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:keep])
        with pytest.raises(PackError, match=r"c\.tar\.gz cannot be read"):
            find_pixels(path, "test")


def test_a_tar_cut_short_is_refused(tmp_path: Path) -> None:
    path = tar(tmp_path / "c.tar", {"test.bin": records(made(Kind.CIFAR100, 3))})
    path.write_bytes(path.read_bytes()[:6000])
    with pytest.raises(PackError, match=r"c\.tar"):
        find_pixels(path, "test")


def test_a_link_or_a_second_member_of_one_name_is_refused(tmp_path: Path) -> None:
    data = records(made(Kind.CIFAR100, 1))
    path = tmp_path / "c.tar"
    with tarfile.open(path, "w") as archive:
        link = tarfile.TarInfo("test.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(PackError, match=r"test\.bin is a link"):
        find_pixels(path, "test")
    with tarfile.open(path, "w") as archive:
        for name in ("a/test.bin", "b/test.bin"):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    with pytest.raises(PackError, match=r"two members called test\.bin"):
        find_pixels(path, "test")


@pytest.mark.parametrize(
    ("name", "kind", "width"),
    [("test_batch.bin", Kind.CIFAR10, 3073), ("test.bin", Kind.CIFAR100, 3074)],
)
def test_records_that_are_not_whole_are_refused(
    tmp_path: Path, name: str, kind: Kind, width: int
) -> None:
    data = records(made(kind, 2))
    with pytest.raises(PackError, match=rf"{name} has {2 * width - 1} bytes.*1 records of {width}"):
        find_pixels(fill(tmp_path, {name: data[:-1]}), "test")
    with pytest.raises(PackError, match=rf"{name} has {2 * width + 1} bytes"):
        find_pixels(fill(tmp_path, {name: data + b"x"}), "test")


def test_a_label_that_is_no_class_is_named(tmp_path: Path) -> None:
    for name, at, what in (
        ("test_batch.bin", 3073, "sample 1 has label 255, the set has 10"),
        ("test.bin", 3075, "sample 1 has label 255, the set has 100"),
        ("test.bin", 0, "sample 0 has label 255, the set has 20"),
    ):
        folder = tmp_path / f"{name}{at}"
        folder.mkdir()
        kind = Kind.CIFAR10 if "batch" in name else Kind.CIFAR100
        fill(folder, {name: records(made(kind, 2))})
        damage(folder / name, at, b"\xff")
        with pytest.raises(PackError, match=what):
            find_pixels(folder, "test")


def test_a_damaged_volume_is_refused_and_not_sealed_anew(tmp_path: Path) -> None:
    path = write_small_set(tmp_path / "s.dts", Kind.MNIST, 3)
    damage(path, 1000, b"\x00\x01\x02")
    with pytest.raises(PackError, match=r"s\.dts is damaged: its labels and pixels"):
        find_pixels(path, "test")
    path.write_bytes(b"text")
    with pytest.raises(HeaderError):
        find_pixels(path, "test")
