import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtsflow
from dtsflow.decode import Auto
from dtsflow.errors import ConfigError, DecodeError, SetError
from dtsflow.testing import jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import Kind

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from torch.utils.data import DataLoader  # noqa: E402  # it needs PyTorch

from dtsflow.interop.torch import VolumeDataset  # noqa: E402  # so does this

COUNT = 10


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    images = [(jpeg(20, 24, seed=i), i % 3) for i in range(COUNT)]
    return write_block_volume(tmp_path / "tiny.dts", [images[:4], [], images[4:]])


def decoded(path: Path) -> list[Any]:
    decoder = Auto().start()
    with dtsflow.volume.open(path) as samples:
        return [decoder.decode(sample.data).copy() for sample in samples]


def test_samples_are_pil_images_and_labels_by_id(volume: Path) -> None:
    dataset = VolumeDataset(volume)
    expected = decoded(volume)
    assert len(dataset) == COUNT
    assert dataset.classes == ["0", "1", "2"]
    for index in (0, 3, 4, 9, -1):
        image, label = dataset[index]
        assert image.mode == "RGB"
        assert image.size == (20, 24)
        assert np.array_equal(np.asarray(image), expected[index])
        assert label == index % COUNT % 3
        assert type(label) is int
    with pytest.raises(IndexError):
        dataset[COUNT]


def test_samples_are_tensors_of_their_own_where_asked_for(volume: Path) -> None:
    dataset = VolumeDataset(volume, image="tensor")
    image, _ = dataset[5]
    assert image.dtype == torch.uint8
    assert image.shape == (24, 20, 3)
    image.zero_()
    assert np.array_equal(dataset[5][0].numpy(), decoded(volume)[5])


def test_stored_pixels_are_gray_or_rgb(tmp_path: Path) -> None:
    digits = write_small_set(tmp_path / "mnist.dts", Kind.MNIST, 3)
    colours = write_small_set(tmp_path / "cifar.dts", Kind.CIFAR10, 3)
    gray, label = VolumeDataset(digits)[2]
    with dtsflow.volume.open(digits) as samples:
        assert gray.tobytes() == bytes(samples[2].data)
        assert label == samples[2].label
    assert (gray.mode, gray.size) == ("L", (28, 28))
    assert VolumeDataset(digits, image="tensor")[0][0].shape == (28, 28, 1)
    rgb, _ = VolumeDataset(colours)[0]
    assert (rgb.mode, rgb.size) == ("RGB", (32, 32))
    assert VolumeDataset(colours).classes[:2] == ["airplane", "automobile"]


def test_a_transform_gets_the_image(volume: Path) -> None:
    assert VolumeDataset(volume, np.shape)[0] == ((24, 20, 3), 0)
    assert VolumeDataset(volume, type, image="tensor")[0][0] is torch.Tensor


# Python 3.12 and later warn of any fork of a process with threads.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_read_the_same_samples_however_they_start(volume: Path, start: str) -> None:
    dataset = VolumeDataset(volume, image="tensor")
    dataset[0]  # open in this process, too, before any worker exists
    loader = DataLoader(dataset, batch_size=3, num_workers=2, multiprocessing_context=start)
    batches = list(loader)
    images = torch.cat([images for images, _ in batches]).numpy()
    labels = torch.cat([labels for _, labels in batches])
    assert np.array_equal(images, np.stack(decoded(volume)))
    assert labels.tolist() == [i % 3 for i in range(COUNT)]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_does_not_wait_for_a_lock_of_its_parents_threads(volume: Path) -> None:
    dataset = VolumeDataset(volume, image="tensor")
    dataset[0]
    assert dataset._opened is not None
    loader = DataLoader(dataset, num_workers=1, multiprocessing_context="fork", timeout=20)
    with dataset._opened.volumes._lock:
        assert sum(1 for _ in loader) == COUNT


def test_a_copy_through_pickle_opens_its_own_files(volume: Path) -> None:
    dataset = VolumeDataset(volume, image="tensor", decode=Auto(orientation="apply"))
    dataset[0]
    again = pickle.loads(pickle.dumps(dataset))
    assert torch.equal(again[7][0], dataset[7][0])
    assert again.classes == dataset.classes


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors by /proc")
def test_a_dataset_that_is_dropped_closes_its_files(volume: Path) -> None:
    VolumeDataset(volume)[0]  # libraries load, and may keep files open
    before = descriptors()
    dataset = VolumeDataset(volume)
    assert descriptors() == before
    dataset[0]
    assert descriptors() == before + 1
    del dataset
    assert descriptors() == before


def test_a_damaged_sample_is_named_by_its_place(tmp_path: Path) -> None:
    blocks = [[(jpeg(), 0)], [(jpeg(seed=1), 1), (b"no image at all", 2)]]
    path = write_block_volume(tmp_path / "bad.dts", blocks)
    dataset = VolumeDataset(path)
    assert dataset[1][1] == 1
    with pytest.raises(DecodeError, match=r"bad\.dts block 1 sample 1 \(label 2, sample_id 2\)"):
        dataset[2]


def test_what_cannot_be_is_refused_at_once(tmp_path: Path, volume: Path) -> None:
    with pytest.raises(SetError):
        VolumeDataset(tmp_path / "none.dts")
    wrong: Any = "numpy"
    with pytest.raises(ConfigError, match=r"image is 'numpy'\. Choose one of pil, tensor"):
        VolumeDataset(volume, image=wrong)
