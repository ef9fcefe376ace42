"""A run from images in files delivers what a run from the packed volume does."""

import itertools
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtsflow
from dtsflow.cli.run import stream
from dtsflow.errors import ConfigError, DecodeError, PlanError, VolumeError
from dtsflow.pipeline.explain import plan_text
from dtsflow.pipeline.run import Run
from dtsflow.reader import files
from dtsflow.testing import jpeg
from dtsflow.volume import Packing, pack
from dtsflow.volume.format.manifest import manifest_path, read_manifest
from dtsflow.volume.packing.options import Layout


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `images` of 37, and in `volumes` the four volumes packed from it."""
    root = tmp_path_factory.mktemp("packed")
    for number in range(37):
        own = root / "images" / f"class{number % 3}"
        own.mkdir(parents=True, exist_ok=True)
        (own / f"{number:02d}.jpg").write_bytes(jpeg(20 + number % 9, 24, seed=number))
    pack(root / "images", root / "volumes", Packing(split="train", layout=Layout(volumes=4)))
    return root


def config(path: Path, **more: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "experiment": "imagenet_train",
        "volume": {"path": path},
        "batch_size": 8,
        "lanes": 4,
        "tail": "pad",
        "epochs": 2,
        "consumer": "digest",
        "po": {
            "operations": [
                {"_target_": "dtsflow.po.RandomResizedCrop", "size": 12},
                {"_target_": "dtsflow.po.Normalize", "preset": "imagenet", "dtype": "FP16"},
            ]
        },
    }
    return base | more


def digests(path: Path, *words: str, **more: Any) -> list[dict[str, Any]]:
    with dtsflow.open(config(path, **more), *words) as run:
        stream(run)
        found: list[dict[str, Any]] = run.results["digest"]["epochs"]
    return found


def ordered(root: Path) -> tuple[str, ...]:
    return ("volume=raw", f"reader.order_from={root / 'volumes'}")


@pytest.mark.parametrize("tail", ["pad", "drop", "wrap"])
@pytest.mark.parametrize("shuffle", ["none", "blocks", "full"])
def test_with_order_from_the_packed_volume_it_is_the_same_sequence(
    packed: Path, tail: str, shuffle: str
) -> None:
    word = f"reader.shuffle={shuffle}"
    wanted = digests(packed / "volumes", word, tail=tail)
    for workers, threads in itertools.product((1, 8), (1, 8)):
        more = (word, f"workers={workers}", f"reader.io_threads={threads}")
        assert digests(packed / "images", *ordered(packed), *more, tail=tail) == wanted


def test_so_it_is_with_little_room_and_on_the_reference_path(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "AHEAD_BYTES", 0)
    word = "decode=pillow"
    wanted = digests(packed / "volumes", word)
    assert digests(packed / "images", *ordered(packed), word, "workers=3") == wanted


def test_so_it_is_of_a_subset_and_of_a_tar(packed: Path, tmp_path: Path) -> None:
    words = ("reader.subset.classes=[class0,2]", "reader.subset.fraction=0.6")
    wanted = digests(packed / "volumes", *words)
    assert digests(packed / "images", *ordered(packed), *words) == wanted
    with tarfile.open(tmp_path / "images.tar", "w") as archive:
        archive.add(packed / "images", "train")
    assert digests(tmp_path / "images.tar", *ordered(packed), *words) == wanted


def test_without_it_blocks_means_full_and_a_tar_is_the_folder(packed: Path, tmp_path: Path) -> None:
    wanted = digests(packed / "images", "volume=raw", "reader.shuffle=full")
    assert digests(packed / "images", "volume=raw", "reader=raw", "workers=3") == wanted
    with tarfile.open(tmp_path / "images.tar", "w") as archive:
        archive.add(packed / "images", "train")
    assert digests(tmp_path / "images.tar", "volume=raw") == wanted
    assert wanted[0]["samples"] != wanted[1]["samples"]  # the crops of two epochs differ
    with dtsflow.open(config(packed / "images"), "volume=raw", "reader.shuffle=none") as run:
        ids = [int(i) for batch in run.epoch(0) for i in batch.sample_ids[batch.valid]]
    assert sorted(ids) == list(range(37))


def test_a_run_goes_on_in_mid_epoch_as_raw_or_as_packed(packed: Path, tmp_path: Path) -> None:
    def part(path: Path, *words: str, **more: Any) -> int:
        with dtsflow.open(config(path, epochs=1, **more), *words) as run:
            stream(run)
            (tmp_path / "state.json").write_text(run.state().to_json())
            return int(run.results["digest"]["epochs"][0]["sequence"], 16)

    whole = part(packed / "volumes")
    raw_words, resume = ordered(packed), str(tmp_path / "state.json")
    for stop in range(1, 5):
        first = part(packed / "images", *raw_words, "workers=1", max_steps=stop)
        rest = part(packed / "images", *raw_words, "workers=3", resume=resume)
        assert (first + rest) % 2**256 == whole
        first = part(packed / "images", *raw_words, max_steps=stop)
        assert (first + part(packed / "volumes", resume=resume)) % 2**256 == whole
    part(packed / "images", "volume=raw", max_steps=2)
    with pytest.raises(ConfigError, match="a run with another data"):
        part(packed / "images", *raw_words, "reader.shuffle=full", resume=resume)


def test_the_plan_says_what_it_reads_and_how_much_ahead(packed: Path) -> None:
    with dtsflow.open(config(packed / "images"), "volume=raw") as run:
        text = plan_text(run.plan)
        assert run.plan.reading["train"][0] == "raw"
        total = sum(path.stat().st_size for path in (packed / "images").rglob("*.jpg"))
        assert run.plan.memory_entries["raw images"] == total  # all of so few
    assert "37 samples, 3 classes, images in files" in text
    assert str(packed / "images") in text
    assert "raw, auto: nothing was packed, so images are read from their own files" in text
    assert "only their sizes are checked" in text
    with dtsflow.open(config(packed / "images"), *ordered(packed)) as run:
        text = plan_text(run.plan)
    assert "4 blocks" in text
    assert "sizes are checked" not in text


@pytest.mark.parametrize("mode", ["resident", "streaming"])
def test_a_mode_that_cannot_be_is_refused_with_the_way_out(packed: Path, mode: str) -> None:
    with pytest.raises(PlanError, match=f"mode={mode} reads volumes, .*images was not packed"):
        dtsflow.open(config(packed / "images"), "volume=raw", f"reader={mode}")
    with pytest.raises(PlanError, match=r"mode=raw reads images from their own .*volume=raw"):
        dtsflow.open(config(packed / "volumes"), "reader=raw")
    with pytest.raises(PlanError, match="holds blocks, which have their own"):
        dtsflow.open(config(packed / "volumes"), f"reader.order_from={packed / 'volumes'}")


@pytest.fixture
def images(packed: Path, tmp_path: Path) -> Path:
    """A copy of the images, to be changed."""
    shutil.copytree(packed / "images", tmp_path / "images")
    return tmp_path / "images"


BAD = {"empty": b"", "text": b"no image", "cut": jpeg(20, 24)[:200]}


@pytest.mark.parametrize("word", ["decode=auto", "decode=pillow"])
@pytest.mark.parametrize("what", BAD)
def test_a_file_that_is_no_image_is_a_bad_sample(images: Path, what: str, word: str) -> None:
    (images / "class1" / "01.jpg").write_bytes(BAD[what])
    listed = sorted(path.relative_to(images).as_posix() for path in images.rglob("*.jpg"))
    bad = listed.index("class1/01.jpg")
    words = ("volume=raw", word)
    with (
        dtsflow.open(config(images), *words) as run,
        pytest.raises(DecodeError, match=rf"class1/01\.jpg \(label 1, sample_id {bad}\)"),
    ):
        list(run.epoch(0))
    for on_error, instead in (("mask", []), ("replace", [bad + 1])):  # the next one listed
        with dtsflow.open(config(images), *words, f"decode.on_error={on_error}") as run:
            ids = [int(i) for batch in run.epoch(0) for i in batch.sample_ids[batch.valid]]
        assert sorted(ids) == sorted([*(set(range(37)) - {bad}), *instead])


def test_substitutes_are_the_same_as_of_the_packed_volume(
    packed: Path, images: Path, tmp_path: Path
) -> None:
    """Two images whose bytes are no image's, packed at level 0 as they are."""
    for name in ("class1/01.jpg", "class2/35.jpg"):
        path = images / name
        data = path.read_bytes()
        # The header stays, so that packing takes it; what it announces is not there.
        path.write_bytes(data[:-2].ljust(len(data), b"\0"))
    pack(images, tmp_path / "volumes", Packing(split="train", layout=Layout(volumes=4)))
    word = "decode.on_error=replace"
    wanted = digests(tmp_path / "volumes", word)
    assert digests(images, *ordered(tmp_path), word) == wanted
    assert wanted != digests(packed / "volumes")


def test_an_image_of_the_same_size_and_other_bytes_is_found_out(packed: Path, images: Path) -> None:
    entry = next(read_manifest(manifest_path(min((packed / "volumes").glob("*.dts")))))
    data = bytearray((images / entry.name).read_bytes())
    data[len(data) // 2] ^= 1
    (images / entry.name).write_bytes(data)
    with (
        dtsflow.open(config(images), *ordered(packed)) as run,
        pytest.raises(VolumeError, match=rf"sample_id 0: .*{entry.name} has the CRC-32 0x"),
    ):
        list(run.epoch(0))
    unchecked = ("reader.verify=none", "decode.on_error=mask")
    with dtsflow.open(config(images), *ordered(packed), *unchecked) as run:
        assert len(list(run.epoch(0))) == 5


@pytest.mark.parametrize("what", ["gone", "longer"])
def test_a_file_that_changes_meanwhile_ends_the_run_and_is_named(images: Path, what: str) -> None:
    with dtsflow.open(config(images), "volume=raw", "decode.on_error=replace") as run:
        plan = run.plan
    path = images / "class2" / "35.jpg"
    path.unlink() if what == "gone" else path.write_bytes(path.read_bytes() + b"\0")
    with Run.open(plan) as run, pytest.raises(VolumeError, match=r"sample_id 36: .*class2/35\.jpg"):
        list(run.epoch(0))


def test_public_files_give_what_the_volume_packed_from_them_does(tmp_path: Path) -> None:
    records = np.random.default_rng(0).integers(0, 256, (50, 3073), np.uint8)
    records[:, 0] %= 10
    (tmp_path / "cifar").mkdir()
    (tmp_path / "cifar" / "test_batch.bin").write_bytes(records.tobytes())
    volume = pack(tmp_path / "cifar", tmp_path / "packed", Packing(split="test")).path
    more = {"po": "cifar_train"}
    wanted = digests(volume, **more)
    words = ("volume=raw", "volume.split=test")
    for workers in (1, 8):
        assert digests(tmp_path / "cifar", *words, f"workers={workers}", **more) == wanted
    with dtsflow.open(config(tmp_path / "cifar", **more), *words) as run:
        assert run.plan.memory_entries["raw images"] == 2 * 50 * 3073
        assert "raw, auto: nothing was packed, so images are kept in memory" in plan_text(run.plan)
        (tmp_path / "cifar" / "test_batch.bin").write_bytes(records[1:].tobytes())
        with pytest.raises(VolumeError, match="changed: its test part is not the one"):
            Run.open(run.plan)
    with pytest.raises(PlanError, match="holds pixels, which have their own"):
        digests(tmp_path / "cifar", *words, f"reader.order_from={volume}", **more)
