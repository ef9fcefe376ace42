"""Runs on volumes that the upstream exporter wrote."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtsflow
from dtsflow.consumer.consumer import PhaseSetting, Setting
from dtsflow.consumer.digest import Digest
from dtsflow.pipeline.run import Run

CHAINS = {
    "imagenet_train_lv0": "imagenet_train",
    "imagenet_train_lv1": "imagenet_train",
    "imagenet_train_lv2": "imagenet_train",
    "imagenet_train_lv3": "imagenet_train",
    "imagenet_val_lv3": "imagenet_val",
    "mnist_test": "mnist",
    "cifar10_test": "cifar_train",
    "cifar100_test": "cifar_train",
}


def open_run(path: Path, chain: str, **values: Any) -> Run:
    tree = {"volume": {"path": str(path)}, "tail": "pad", "station": {"poison": True}}
    return dtsflow.open(f"po={chain}", {**tree, **values})


@pytest.mark.parametrize("name", CHAINS)
def test_every_sample_arrives_once_and_alike_for_any_number_of_workers(
    reference: Path, name: str
) -> None:
    path, found = reference / f"{name}.dts", []
    with dtsflow.volume.open(path) as volume:
        labels = volume.labels
    for workers in (1, 8):
        with open_run(path, CHAINS[name], workers=workers) as run:
            sink = Digest().open(Setting(None, {"train": PhaseSetting(0)}))
            delivered = []
            for batch in run.epoch(0):
                sink.take(batch)
                ids = batch.sample_ids[batch.valid]
                assert np.array_equal(batch.labels[batch.valid], labels[ids])
                delivered += ids.tolist()
        assert sorted(delivered) == list(range(len(labels)))
        found.append(sink.results())
    assert found[0] == found[1]


def test_the_levels_hold_the_same_images_with_the_same_labels(reference: Path) -> None:
    sources = json.loads((reference / "sources.json").read_text())["train"]
    wanted = np.bincount([source["label"] for source in sources.values()])
    for level in range(4):
        with dtsflow.volume.open(reference / f"imagenet_train_lv{level}.dts") as volume:
            assert np.array_equal(np.bincount(volume.labels), wanted)


def test_a_digit_can_be_read_off_a_batch(reference: Path) -> None:
    """Pixels and labels belong together: guessing by class means beats chance, 0.1."""
    with open_run(reference / "mnist_test.dts", "mnist") as run:
        batches = [batch.compact() for batch in run.epoch(0)]
    images = np.concatenate([batch.images for batch in batches]).reshape(-1, 784)
    labels = np.concatenate([batch.labels for batch in batches])
    means = np.stack([images[labels == digit].mean(axis=0) for digit in range(10)])
    nearest = ((images[:1000, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == labels[:1000]).mean() > 0.4
