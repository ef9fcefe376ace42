"""Runs from shards and tables deliver what a run from their images' folder does."""

import json
from pathlib import Path
from typing import Any

import pytest

import dtsflow
from dtsflow.cli.main import main
from dtsflow.cli.run import stream
from dtsflow.errors import VolumeError
from dtsflow.testing import jpeg
from dtsflow.volume import Packing, export, pack

CLASSES = ["cat", "dog", "owl"]


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One set of 23 images as a `tree`, as `volumes` and as `shards`."""
    root = tmp_path_factory.mktemp("sets")
    for number in range(23):
        place = root / "tree" / CLASSES[number % 3] / f"{number:02d}.jpg"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(jpeg(20 + number % 5, 24, seed=number))
    pack(root / "tree", root / "volumes", Packing(split="train"))
    export(root / "volumes", root / "shards", to="webdataset", shard_samples=9)
    return root


def digests(path: Path | str, *words: str) -> list[dict[str, Any]]:
    config = {
        "experiment": "imagenet_train",
        "volume": {"path": str(path)},
        "batch_size": 8,
        "lanes": 4,
        "tail": "pad",
        "consumer": "digest",
        "po": {"operations": [{"_target_": "dtsflow.po.RandomResizedCrop", "size": 12}]},
    }
    with dtsflow.open(config, *words) as run:
        stream(run)
        found: list[dict[str, Any]] = run.results["digest"]["epochs"]
    return found


def test_shards_are_the_folder_they_came_from(sets: Path) -> None:
    wanted = digests(sets / "tree", "volume=raw")
    for path in ("shards", "shards/*.tar", "shards/shard-{000000..000002}.tar"):
        assert digests(sets / path, "volume=raw") == wanted
    in_order = digests(sets / "volumes")
    assert in_order != wanted
    assert (
        digests(sets / "shards", "volume=raw", f"reader.order_from={sets / 'volumes'}") == in_order
    )


def test_a_table_is_the_folder_it_came_from(sets: Path, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    names = sorted(str(path.relative_to(sets / "tree")) for path in sets.glob("tree/*/*.jpg"))
    rows = [{"bytes": (sets / "tree" / name).read_bytes(), "path": name} for name in names]
    labels = [CLASSES.index(name.partition("/")[0]) for name in names]
    feature = {"y": {"names": CLASSES, "_type": "ClassLabel"}}
    about = {"huggingface": json.dumps({"info": {"features": feature}})}
    for part in range(2):
        table = pa.table({"image": rows[part::2], "y": labels[part::2]}).replace_schema_metadata(
            about
        )
        pq.write_table(table, tmp_path / f"t-{part:05d}-of-00002.parquet", row_group_size=4)
    words = ("volume=raw", f"volume.spool={tmp_path / 'spool'}")
    assert digests(tmp_path / "*.parquet", *words) == digests(sets / "tree", "volume=raw")


@pytest.mark.usefixtures("workdir")
def test_a_brace_list_and_every_field_can_be_said_on_the_command_line(
    sets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = f"volume.path='{sets / 'shards'}/shard-{{000000..000002}}.tar'"
    words = ["+experiment=imagenet_train", "volume=raw", path, "volume.format=webdataset"]
    words += ["volume.image_field=jpg", "volume.label_field=cls", "batch_size=8", "lanes=4"]
    assert main(["plan", *words]) == 0
    told = capsys.readouterr().out
    assert "23 samples, 3 classes" in told
    assert str(sets / "shards" / "shard-000002.tar") in told


def test_a_shard_that_is_cut_after_the_plan_is_named(sets: Path, tmp_path: Path) -> None:
    export(sets / "volumes", tmp_path / "shards", to="webdataset", shard_samples=9)
    config = {
        "experiment": "imagenet_train",
        "volume": {"path": str(tmp_path / "shards")},
        "batch_size": 8,
        "lanes": 4,
    }
    with dtsflow.open(config, "volume=raw") as run:
        cut = tmp_path / "shards" / "shard-000001.tar"
        cut.write_bytes(cut.read_bytes()[:2000])
        with pytest.raises(VolumeError, match=r"shard-000001\.tar has 2000 bytes, it had \d+"):
            stream(run)
