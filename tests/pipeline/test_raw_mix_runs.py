"""A mix of sources that were not packed delivers what the packed ones do."""

import itertools
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtsflow
from dtsflow.cli.run import stream
from dtsflow.config.compose import compose
from dtsflow.consumer.consumer import PhaseSetting, Setting
from dtsflow.consumer.digest import Digest, add_sequences
from dtsflow.errors import ConfigError, DecodeError, PlanError, VolumeError
from dtsflow.pipeline.build import build
from dtsflow.pipeline.explain import plan_text
from dtsflow.pipeline.planner import plan_run
from dtsflow.pipeline.run import Run
from dtsflow.ranks.group import Rank
from dtsflow.testing import damage, jpeg, write_small_set
from dtsflow.volume import Packing, pack
from dtsflow.volume.datasets.access import read_labels
from dtsflow.volume.datasets.config import Raw
from dtsflow.volume.datasets.mixed import MixedSet, mixed
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.format.header import SMALL_AREA_BYTES, Kind
from dtsflow.volume.packing.options import Layout

COUNTS = {"cats": 23, "dogs": 14}
WEIGHTS = {"cats": 0.4, "dogs": 0.6}
NO_WEIGHTS: dict[str, float] = {}

Sources = Mapping[str, dict[str, Any]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two folders of images, and three and two volumes packed from them."""
    root = tmp_path_factory.mktemp("raw_mix")
    for place, (name, count) in enumerate(COUNTS.items()):
        for number in range(count):
            own = root / name / f"class{number % 3}"
            own.mkdir(parents=True, exist_ok=True)
            image = jpeg(20 + number % 9, 24, seed=100 * place + number)
            (own / f"{number:02d}.jpg").write_bytes(image)
        layout = Layout(volumes=3 - place)
        pack(root / name, root / f"{name}_packed", Packing(split="train", layout=layout))
    return root


def packed(root: Path, name: str) -> dict[str, Any]:
    return {"volume": {"path": str(root / f"{name}_packed")}}


def raw(root: Path, name: str, order_from: Path | None = None) -> dict[str, Any]:
    source = {"volume": {"_target_": "dtsflow.volume.Raw", "path": str(root / name)}}
    return source if order_from is None else {**source, "order_from": str(order_from)}


def ordered(root: Path, name: str) -> dict[str, Any]:
    return raw(root, name, root / f"{name}_packed")


def config(sources: Sources, weights: dict[str, float] = NO_WEIGHTS, **more: Any) -> dict[str, Any]:
    mix = {name: {**source, "weight": weights.get(name)} for name, source in sources.items()}
    base: dict[str, Any] = {
        "batch_size": 8,
        "lanes": 4,
        "epochs": 2,
        "workers": 2,
        "consumer": "digest",
        "reader": {"mix": mix},
        "station": {"poison": True, "timeout_s": 20},
        "po": {
            "operations": [
                {"_target_": "dtsflow.po.RandomResizedCrop", "size": 12},
                {"_target_": "dtsflow.po.Normalize", "preset": "imagenet", "dtype": "FP16"},
            ]
        },
    }
    return base | more


def digests(values: dict[str, Any], *words: str) -> list[dict[str, Any]]:
    with dtsflow.open(values, *words) as run:
        stream(run)
        found: list[dict[str, Any]] = run.results["digest"]["epochs"]
    return found


@pytest.mark.parametrize("tail", ["pad", "drop", "wrap"])
@pytest.mark.parametrize("shuffle", ["none", "blocks", "full"])
@pytest.mark.parametrize("weights", [NO_WEIGHTS, WEIGHTS], ids=["once", "weights"])
def test_sources_in_files_give_what_the_volumes_packed_from_them_do(
    root: Path, weights: dict[str, float], shuffle: str, tail: str
) -> None:
    words = (f"reader.shuffle={shuffle}", f"tail={tail}")
    wanted = digests(config({name: packed(root, name) for name in COUNTS}, weights), *words)
    for kinds in ((packed, ordered), (ordered, packed), (ordered, ordered)):
        sources = {name: kind(root, name) for name, kind in zip(COUNTS, kinds, strict=True)}
        assert digests(config(sources, weights), *words, "workers=3") == wanted


def test_without_an_order_blocks_means_full_and_each_sample_comes_once(root: Path) -> None:
    sources = {"cats": raw(root, "cats"), "dogs": packed(root, "dogs")}
    values = config(sources)
    assert digests(values, "reader.verify=file") == digests(
        values, "reader.shuffle=full", "workers=5"
    )
    labels = read_labels(scan(root / "dogs_packed")).tolist()
    with dtsflow.open(values) as run:
        rows = [
            (int(batch.sample_ids[row]), int(batch.labels[row]))
            for batch in run.epoch(0)
            for row in np.flatnonzero(batch.valid)
        ]
    found = dict(rows)
    assert sorted(i for i, _ in rows) == list(range(37))
    assert [found[23 + number] for number in range(14)] == labels
    assert Counter(found[number] for number in range(23)) == {0: 8, 1: 8, 2: 7}


def test_ranks_and_a_resume_in_mid_epoch_change_nothing(root: Path) -> None:
    sources = {"cats": ordered(root, "cats"), "dogs": packed(root, "dogs")}
    values = config(sources, WEIGHTS)

    def parts(size: int, start: int) -> str:
        found = []
        for index in range(size):
            digest = Digest().open(Setting(None, {"train": PhaseSetting(0)}))
            with Run.open(plan_run(build(compose(values=values).values), Rank(index, size))) as run:
                for batch in run.epoch(1, start_step=start):
                    digest.take(batch)
            found.append(digest.results()["digest"]["sequence"])
        return add_sequences(found)

    whole = digests(config({name: packed(root, name) for name in COUNTS}, WEIGHTS))[1]
    assert parts(1, 0) == parts(4, 0) == whole["sequence"]
    assert parts(2, 3) == parts(1, 3) != whole["sequence"]


def test_a_subset_of_a_mix_is_one_of_all_its_sources(root: Path) -> None:
    words = ("reader.subset.classes=[class0,2]", "reader.subset.fraction=0.6")
    wanted = digests(config({name: packed(root, name) for name in COUNTS}), *words)
    sources = {"cats": packed(root, "cats"), "dogs": ordered(root, "dogs")}
    assert digests(config(sources), *words) == wanted
    ids = root / "ids.txt"
    ids.write_text("30\n25\n")  # of the dogs alone, so that no block of the cats is needed
    with dtsflow.open(config(sources), f"reader.subset.ids={ids}") as run:
        found = [int(i) for batch in run.epoch(0) for i in batch.sample_ids[batch.valid]]
    assert sorted(found) == [25, 30]


@pytest.mark.parametrize("weights", [NO_WEIGHTS, {"files": 0.5, "volume": 0.5}])
def test_public_files_are_mixed_with_volumes_of_the_same_size(
    tmp_path: Path, weights: dict[str, float]
) -> None:
    records = np.random.default_rng(0).integers(0, 256, (50, 3073), np.uint8)
    records[:, 0] %= 10
    (tmp_path / "cifar").mkdir()
    (tmp_path / "cifar" / "test_batch.bin").write_bytes(records.tobytes())
    made = pack(tmp_path / "cifar", tmp_path / "packed", Packing(split="test")).path
    other = write_small_set(tmp_path / "other.dts", Kind.CIFAR10, 30, seed=4)
    volume = {"volume": {"path": str(other)}}
    files = {
        "volume": {
            "_target_": "dtsflow.volume.Raw",
            "path": str(tmp_path / "cifar"),
            "split": "test",
        }
    }
    wanted = config({"files": {"volume": {"path": str(made)}}, "volume": volume}, weights)
    found = config({"files": files, "volume": volume}, weights)
    more = {"po": "cifar_train"}
    assert digests({**found, **more}, "workers=3") == digests({**wanted, **more})
    with dtsflow.open({**found, **more}) as run:
        held = run.plan.memory_entries["sources of the mix"]
        assert held >= 2 * 50 * 3073 + 30 * 3073
        assert "images that workers read" not in run.plan.memory_entries
        assert "was not packed: pixels stay in memory" in plan_text(run.plan)


def test_samples_of_public_files_stand_in_for_those_of_a_damaged_volume(tmp_path: Path) -> None:
    records = np.random.default_rng(0).integers(0, 256, (6, 3073), np.uint8)
    records[:, 0] %= 10
    (tmp_path / "cifar").mkdir()
    (tmp_path / "cifar" / "test_batch.bin").write_bytes(records.tobytes())
    volume = write_small_set(tmp_path / "v.dts", Kind.CIFAR10, 4, seed=4)
    damage(volume, SMALL_AREA_BYTES + 100, b"damaged")
    files = {"_target_": "dtsflow.volume.Raw", "path": str(tmp_path / "cifar"), "split": "test"}
    sources = {"volume": {"volume": {"path": str(volume)}}, "files": {"volume": files}}
    values = {**config(sources, po="cifar_val"), "decode": {"on_error": "replace"}}
    with dtsflow.open(values) as run:
        rows = [
            (int(batch.sample_ids[row]), int(batch.labels[row]))
            for batch in run.epoch(0)
            for row in np.flatnonzero(batch.valid)
        ]
    # All four of the volume have the first of the files in their place, which is id 4.
    assert sorted(i for i, _ in rows) == [4] * 5 + [5, 6, 7, 8, 9]
    assert {label for i, label in rows if i == 4} == {int(records[0, 0])}


@pytest.fixture
def changed(root: Path, tmp_path: Path) -> Path:
    """A copy of all, to be changed."""
    shutil.copytree(root, tmp_path / "copy")
    return tmp_path / "copy"


def test_a_bad_sample_of_a_source_is_named_and_replaced_as_in_the_volumes(changed: Path) -> None:
    for name in COUNTS:  # the first image of each, packed as it is
        image = changed / name / "class0" / "00.jpg"
        data = image.read_bytes()
        image.write_bytes(data[:-2].ljust(len(data), b"\0"))
        shutil.rmtree(changed / f"{name}_packed")
        pack(changed / name, changed / f"{name}_packed", Packing(split="train"))
    word = "decode.on_error=replace"
    wanted = digests(config({name: packed(changed, name) for name in COUNTS}), word)
    for kinds in itertools.product((packed, ordered), repeat=2):
        sources = {name: kind(changed, name) for name, kind in zip(COUNTS, kinds, strict=True)}
        assert digests(config(sources), word) == wanted
    sources = {"cats": raw(changed, "cats"), "dogs": raw(changed, "dogs")}
    with (
        dtsflow.open(config(sources), "reader.shuffle=none") as run,
        pytest.raises(DecodeError, match=r"cats/class0/00\.jpg \(label 0, sample_id 0\)"),
    ):
        list(run.epoch(0))
    with dtsflow.open(config(sources), word) as run:
        list(run.epoch(0))
        assert sorted((bad.sample_id, bad.substitute) for bad in run.bad_samples) == [
            (0, 1),
            (23, 24),
        ]


def test_a_file_that_is_gone_or_changed_is_named_by_its_id_in_the_mix(changed: Path) -> None:
    sources = {"cats": packed(changed, "cats"), "dogs": raw(changed, "dogs")}
    with dtsflow.open(config(sources)) as run:
        plan = run.plan
    (changed / "dogs" / "class0" / "00.jpg").unlink()
    with Run.open(plan) as run, pytest.raises(VolumeError, match=r"sample_id 23: .*class0/00\.jpg"):
        list(run.epoch(0))


def test_the_plan_says_what_is_read_how_and_what_it_takes(root: Path) -> None:
    sources = {"cats": packed(root, "cats"), "dogs": ordered(root, "dogs")}
    with dtsflow.open(config(sources)) as run:
        page, entries = plan_text(run.plan), run.plan.memory_entries
        chunk = run.plan.phases["train"].chunk_rows
    assert "mix: dogs, 14 samples" in page
    assert f"raw, auto: {root / 'dogs'} was not packed: workers read images from their own" in page
    sizes = sorted(path.stat().st_size for path in (root / "dogs").rglob("*.jpg"))
    assert entries["images that workers read"] == sum(sizes[-2 * chunk :])
    assert entries["sources of the mix"] > 3 * (16 << 20)
    with dtsflow.open(config(sources, WEIGHTS)) as run:
        assert run.plan.memory_entries["images that workers read"] == 2 * chunk * sizes[-1]


def test_what_a_mix_of_files_cannot_be_is_refused(root: Path, tmp_path: Path) -> None:
    sources = {"cats": raw(root, "cats"), "dogs": packed(root, "dogs")}
    with pytest.raises(PlanError, match=r"mode=streaming reads volumes, and .*cats was not packed"):
        dtsflow.open(config(sources), "reader.mode=streaming")
    with pytest.raises(ConfigError, match=r"order_from is for one data set, .*mix\.NAME\.order"):
        dtsflow.open(config(sources), f"reader.order_from={root / 'cats_packed'}")
    wrong = {"cats": {**packed(root, "cats"), "order_from": str(root / "cats_packed")}}
    with pytest.raises(PlanError, match="holds blocks, which have their own"):
        dtsflow.open(config(wrong))
    (tmp_path / "more" / "other").mkdir(parents=True)
    (tmp_path / "more" / "other" / "0.jpg").write_bytes(jpeg())
    with pytest.raises(PlanError, match="class 0 is 'class0' in cats and 'other' in more"):
        dtsflow.open(config({**sources, "more": raw(tmp_path, "more")}))
    digits = write_small_set(tmp_path / "m.dts", Kind.MNIST, 5)
    with pytest.raises(PlanError, match="cats holds compressed images, digits holds pixels"):
        dtsflow.open(config({**sources, "digits": {"volume": {"path": str(digits)}}}))


def test_a_mixed_set_finds_every_sample_in_its_source(root: Path) -> None:
    one, two = scan(root / "dogs_packed"), Raw(str(root / "cats")).scan()
    mix = mixed({"one": one, "two": two})
    assert isinstance(mix, MixedSet)
    assert mix.blocks_of_sources == (2, 1)
    assert [mix.source_of(block) for block in range(3)] == [0, 0, 1]
    assert (mix.num_samples, mix.layout, mix.has_blocks) == (37, "files", False)
    for sample_id in range(37):
        own, source = (sample_id, one) if sample_id < 14 else (sample_id - 14, two)
        block, place = mix.block_of(sample_id)
        assert mix.first_ids[block] + place == sample_id
        assert mix.where(sample_id) == source.where(own)
    with pytest.raises(IndexError):
        mix.block_of(37)
    assert mix.fingerprint() != mixed({"two": two, "one": one}).fingerprint()
