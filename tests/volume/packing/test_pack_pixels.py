import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from dtsflow.errors import PackError
from dtsflow.testing import write_small_set
from dtsflow.volume.format.file import read_file
from dtsflow.volume.format.header import Kind
from dtsflow.volume.format.pixel_file import SMALL_SETS, most_samples
from dtsflow.volume.packing.pack import pack_pixels
from dtsflow.volume.source.pixel_files import PixelSet, find_pixels

SMALL = [(Kind.MNIST, "mnist"), (Kind.CIFAR10, "cifar10"), (Kind.CIFAR100, "cifar100")]


def made(kind: Kind, samples: int) -> PixelSet:
    pixels = np.arange(samples * SMALL_SETS[kind].sample_bytes, dtype=np.int64).astype(np.uint8)
    return PixelSet(kind, np.arange(samples, dtype=np.uint8), pixels.reshape(samples, -1))


def write_sources(folder: Path, kind: Kind, raw: bytes) -> None:
    """The public files of what the volume `raw` holds, made without our reader."""
    size = 784 if kind is Kind.MNIST else 3072
    count = (len(raw) - 256) // (size + 1)
    labels = np.frombuffer(raw, np.uint8, count, 256)
    pixels = np.frombuffer(raw, np.uint8, count * size, 256 + count).reshape(count, size)
    if kind is Kind.MNIST:
        start = struct.pack(">IIII", 2051, count, 28, 28)
        (folder / "t10k-images-idx3-ubyte").write_bytes(start + pixels.tobytes())
        start = struct.pack(">II", 2049, count)
        (folder / "t10k-labels-idx1-ubyte").write_bytes(start + labels.tobytes())
        return
    planes = [pixels[:, channel::3] for channel in range(3)]
    coarse = [labels[:, None] % 20] if kind is Kind.CIFAR100 else []
    records = np.hstack([*coarse, labels[:, None], *planes])
    name = "test.bin" if kind is Kind.CIFAR100 else "test_batch.bin"
    (folder / name).write_bytes(records.tobytes())


@pytest.mark.parametrize(("kind", "name"), SMALL)
def test_upstreams_files_are_made_again_bit_for_bit(
    reference: Path, tmp_path: Path, kind: Kind, name: str
) -> None:
    wanted = (reference / f"{name}_test.dts").read_bytes()
    write_sources(tmp_path, kind, wanted)
    pixels = find_pixels(tmp_path, "test")
    assert pixels is not None
    path = pack_pixels(pixels, tmp_path / "out", split="test")
    assert path == tmp_path / "out" / f"{name}_test.dts"
    assert path.read_bytes() == wanted


@pytest.mark.parametrize(("kind", "name"), SMALL)
def test_a_volume_read_back_is_written_again_alike(tmp_path: Path, kind: Kind, name: str) -> None:
    source = write_small_set(tmp_path / "s.dts", kind, 9)
    pixels = find_pixels(source, "test")
    assert pixels is not None
    path = pack_pixels(pixels, tmp_path, split="test", level=3)
    assert path.name == f"{name}_test.dts"
    assert path.read_bytes() == source.read_bytes()


def test_the_header_has_the_split_the_level_and_the_true_number(tmp_path: Path) -> None:
    path = pack_pixels(made(Kind.CIFAR10, 4), tmp_path, split="train", level=2)
    assert path.name == "cifar10_train.dts"
    header = read_file(path).header
    assert (header.is_training, header.compress_level, header.num_samples) == (True, 2, 4)


def test_a_subset_whose_rows_are_not_contiguous_is_written(tmp_path: Path) -> None:
    whole = made(Kind.MNIST, 6)
    some = PixelSet(Kind.MNIST, whole.labels[::2], whole.pixels[::2])
    path = pack_pixels(some, tmp_path, split="test")
    assert path.read_bytes()[256:] == some.labels.tobytes() + some.pixels.tobytes()


def test_a_volume_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mnist_test.dts").write_text("mine")
    with pytest.raises(PackError, match=r"mnist_test\.dts exists already"):
        pack_pixels(made(Kind.MNIST, 1), tmp_path, split="test")
    assert (tmp_path / "mnist_test.dts").read_text() == "mine"


def test_there_is_no_val_volume(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="MNIST has train and test and no val"):
        pack_pixels(made(Kind.MNIST, 1), tmp_path, split="val")


def test_too_little_space_is_found_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=256 + 3 * 785 - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: usage)
    with pytest.raises(PackError, match="2610 bytes free, the volume takes 2611"):
        pack_pixels(made(Kind.MNIST, 3), tmp_path, split="test")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_a_pack_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PackError, match="file cannot be made"):
        pack_pixels(made(Kind.MNIST, 1), tmp_path / "file", split="test")


@pytest.mark.parametrize(("kind", "_name"), SMALL)
def test_the_most_samples_just_fit_the_header(kind: Kind, _name: str) -> None:
    layout = SMALL_SETS[kind]
    record = layout.height * layout.width * 3 + 1
    assert most_samples(kind) * record < 1 << 32 <= (most_samples(kind) + 1) * record


def test_more_samples_than_the_header_can_say_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dtsflow.volume.packing.pack.most_samples", lambda _kind: 2)
    with pytest.raises(PackError, match=r"3 samples do not fit .*mnist_test\.dts: .* holds 2"):
        pack_pixels(made(Kind.MNIST, 3), tmp_path, split="test")
