import json
import os
from collections import Counter
from pathlib import Path

import pytest

from dtsflow.errors import PackError
from dtsflow.testing import jpeg
from dtsflow.volume.access import open_volumes
from dtsflow.volume.packing import pack_folder

IMAGES = 30
CLASSES = 3


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "Flowers"
    for number in range(IMAGES):
        path = folder / "abc"[number % CLASSES] / f"{number:03d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(20 + number, seed=number))
    return folder


def test_packed_images_come_back_unchanged(source: Path, tmp_path: Path) -> None:
    packed = pack_folder(source, tmp_path / "out", split="train")
    assert packed.path == tmp_path / "out" / "flowers_train_lv0.dts"
    assert (packed.images, packed.classes, packed.blocks) == (IMAGES, CLASSES, 1)
    assert packed.bytes == packed.path.stat().st_size
    assert packed.rejects == 0
    with open_volumes(packed.path) as volumes:
        stored = Counter((bytes(sample.data), sample.label) for sample in volumes)
        header = volumes.volumes.files[0].header
    files = sorted(source.rglob("*.jpg"))
    assert stored == Counter((f.read_bytes(), "abc".index(f.parent.name)) for f in files)
    assert (header.is_training, header.num_classes) == (True, CLASSES)
    assert header.max_pic_area == (20 + IMAGES - 1) * 24
    assert [path.name for path in (tmp_path / "out").iterdir()] == [packed.path.name]


def test_classes_are_mixed_inside_a_block(source: Path, tmp_path: Path) -> None:
    packed = pack_folder(source, tmp_path, split="train")
    with open_volumes(packed.path) as volumes:
        labels = volumes.labels.tolist()
    assert labels != sorted(labels)
    assert set(labels[:10]) == {0, 1, 2}


def test_the_same_tree_gives_the_same_bytes(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = pack_folder(source, tmp_path / "1", split="val")
    iterdir = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda folder: reversed(list(iterdir(folder))))
    second = pack_folder(source, tmp_path / "2", split="val")
    assert first.path.read_bytes() == second.path.read_bytes()


def test_a_block_takes_no_more_than_its_index_holds(source: Path, tmp_path: Path) -> None:
    data = jpeg(8, 8)
    for number in range(400):
        (source / "a" / f"small{number}.jpg").write_bytes(data)
    packed = pack_folder(source, tmp_path, split="train", name="many")
    with open_volumes(packed.path) as volumes:
        assert volumes.volumes.counts.tolist() == [340, 90]
    assert packed.path.name == "many_train_lv0.dts"


def test_images_that_cannot_be_packed_are_listed_and_counted(source: Path, tmp_path: Path) -> None:
    (source / "b" / "empty.jpg").touch()
    (source / "c" / "text.png").write_text("no image")
    (source / "c" / "huge.jpg").write_bytes(jpeg() + bytes(1 << 24))
    packed = pack_folder(source, tmp_path, split="test")
    assert packed.images == IMAGES
    listed = Path(f"{packed.path}.rejects.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"] for line in listed] == [
        "b/empty.jpg",
        "c/huge.jpg",
        "c/text.png",
    ]
    assert packed.rejects == 3
    assert packed.classes == CLASSES


def test_a_folder_without_images_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".hidden").touch()
    with pytest.raises(PackError, match="holds no images"):
        pack_folder(tmp_path, tmp_path, split="train")


def test_a_folder_with_only_rejects_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "a").mkdir(parents=True)
    (source / "a" / "1.jpg").touch()
    with pytest.raises(PackError, match=r"all 1 images .* rejected; .*a/1.jpg: the file is empty"):
        pack_folder(source, tmp_path / "out", split="train")
    assert not (tmp_path / "out").exists()


def test_a_volume_is_never_overwritten(source: Path, tmp_path: Path) -> None:
    packed = pack_folder(source, tmp_path, split="train")
    before = packed.path.read_bytes()
    with pytest.raises(PackError, match="exists already"):
        pack_folder(source, tmp_path, split="train")
    assert packed.path.read_bytes() == before


def test_a_source_that_changes_meanwhile_leaves_nothing(source: Path, tmp_path: Path) -> None:
    (source / "b" / "empty.jpg").touch()
    victim = source / "a" / "000.jpg"

    def change(done: int, images: int) -> None:
        if done == images:
            victim.write_bytes(b"other")

    with pytest.raises(
        PackError, match=r"000\.jpg changed while it was packed: \d+ bytes .* 5 now"
    ):
        pack_folder(source, tmp_path / "out", split="train", progress=change)
    assert list((tmp_path / "out").iterdir()) == []


def test_progress_runs_through_all_images_twice(source: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    pack_folder(
        source, tmp_path, split="train", progress=lambda done, images: seen.append((done, images))
    )
    assert seen == [(done, IMAGES) for done in range(1, IMAGES + 1)] + [(IMAGES, IMAGES)]


def test_a_split_folder_is_named_after_its_parent(source: Path, tmp_path: Path) -> None:
    (tmp_path / "ImageNet").mkdir()
    source.rename(tmp_path / "ImageNet" / "train")
    packed = pack_folder(tmp_path / "ImageNet" / "train", tmp_path, split="train")
    assert packed.path.name == "imagenet_train_lv0.dts"


@pytest.mark.parametrize("name", ["", "a/b", "../a", ".."])
def test_a_name_that_leads_elsewhere_is_refused(source: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(PackError, match="cannot begin a file name"):
        pack_folder(source, tmp_path, split="train", name=name)


def test_names_that_are_no_text_are_packed(source: Path, tmp_path: Path) -> None:
    odd = os.fsdecode(b"a/\xff ~\n.jpg")
    try:
        (source / odd).write_bytes(jpeg())
    except OSError:
        pytest.skip("this file system wants text as names")
    assert pack_folder(source, tmp_path, split="train").images == IMAGES + 1
