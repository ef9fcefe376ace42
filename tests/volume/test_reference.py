"""The volumes that the upstream exporter wrote."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dtsflow.volume.datasets.access import open_volumes
from dtsflow.volume.datasets.scan import scan

COUNTS = {
    "imagenet_train_lv0": [174, 10],
    "imagenet_train_lv1": [184],
    "imagenet_train_lv2": [184],
    "imagenet_train_lv3": [184],
    "imagenet_val_lv3": [52],
    "mnist_test": [10000],
    "cifar10_test": [10000],
    "cifar100_test": [10000],
}


@pytest.fixture(scope="module")
def sources(reference: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((reference / "sources.json").read_text())
    return loaded


@pytest.mark.parametrize("name", COUNTS)
def test_every_volume_is_read(reference: Path, name: str) -> None:
    volumes = scan(reference / f"{name}.dts")
    assert volumes.counts.tolist() == COUNTS[name]
    assert volumes.is_training == ("train" in name)
    assert volumes.level == (int(name[-1]) if "lv" in name else 0)


def test_level_0_holds_the_source_files_unchanged(reference: Path, sources: dict[str, Any]) -> None:
    with open_volumes(reference / "imagenet_train_lv0.dts") as volumes:
        stored = Counter(
            (hashlib.sha256(sample.data).hexdigest(), sample.label) for sample in volumes
        )
    expected = Counter((one["sha256"], one["label"]) for one in sources["train"].values())
    assert stored == expected


@pytest.mark.parametrize("name", [name for name in COUNTS if "imagenet" in name])
def test_labels_are_those_of_the_sources(
    reference: Path, sources: dict[str, Any], name: str
) -> None:
    split = sources["train" if "train" in name else "val"]
    with open_volumes(reference / f"{name}.dts") as volumes:
        assert Counter(volumes.labels.tolist()) == Counter(one["label"] for one in split.values())
        assert all(bytes(sample.data[:2]) == b"\xff\xd8" for sample in volumes) or "lv0" in name


@pytest.mark.parametrize("name", ["mnist_test", "cifar10_test", "cifar100_test"])
def test_small_sets_have_all_their_classes(reference: Path, name: str) -> None:
    with open_volumes(reference / f"{name}.dts") as volumes:
        assert set(volumes.labels.tolist()) == set(range(volumes.volumes.num_classes))
        assert len(volumes[9999].data) == int(volumes.sizes.max())
