from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dtsflow.errors import PackError
from dtsflow.volume.datasets.synthetic import write_photos


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*.JPEG"))
    }


def test_the_same_seed_gives_the_same_photos(tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        write_photos(tmp_path / name, images=6, classes=4, seed=seed)
    first = contents(tmp_path / "a")
    assert first == contents(tmp_path / "b")
    assert list(first) == [
        "class_0000/class_0000_000000.JPEG",
        "class_0000/class_0000_000004.JPEG",
        "class_0001/class_0001_000001.JPEG",
        "class_0001/class_0001_000005.JPEG",
        "class_0002/class_0002_000002.JPEG",
        "class_0003/class_0003_000003.JPEG",
    ]
    assert len({*first.values(), *contents(tmp_path / "c").values()}) == 12


def test_sizes_and_bytes_are_like_those_of_imagenet(tmp_path: Path) -> None:
    write_photos(tmp_path / "p", images=120, classes=10, seed=0)
    stored = contents(tmp_path / "p").values()
    sides = []
    for path in sorted((tmp_path / "p").rglob("*.JPEG")):
        with Image.open(path) as image:
            sides.append(image.size)
            assert image.mode in {"RGB", "L"}
    assert sides.count((500, 375)) > 30
    assert len(set(sides)) > 10
    assert 75 <= np.min(sides) <= np.max(sides) <= 2500
    assert 70_000 < np.mean([len(data) for data in stored]) < 150_000


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="exists already"):
        write_photos(tmp_path, images=1, classes=1, seed=0)


@pytest.mark.parametrize(("images", "classes", "seed"), [(0, 1, 0), (1, 0, 0), (1, 1, -1)])
def test_numbers_out_of_range_are_refused(
    tmp_path: Path, images: int, classes: int, seed: int
) -> None:
    with pytest.raises(PackError, match="cannot be made"):
        write_photos(tmp_path / "p", images=images, classes=classes, seed=seed)


def test_what_stops_halfway_leaves_nothing(tmp_path: Path) -> None:
    def stop(_done: int, _images: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_photos(tmp_path / "p", images=3, classes=2, seed=0, progress=stop)
    assert list(tmp_path.iterdir()) == []
