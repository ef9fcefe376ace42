"""Phases: how they are written, and that each is the same beside others and alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtsflow
from dtsflow.arena.batch import Batch
from dtsflow.cli.main import main
from dtsflow.config.compose import compose
from dtsflow.consumer.consumer import PhaseSetting, Setting
from dtsflow.consumer.digest import Digest
from dtsflow.errors import ConfigError, PlanError
from dtsflow.pipeline.build import build, split_phases
from dtsflow.pipeline.checkpoint import State
from dtsflow.pipeline.explain import plan_text
from dtsflow.pipeline.plan import Plan
from dtsflow.pipeline.planner import plan_run
from dtsflow.pipeline.run import Run
from dtsflow.ranks.group import Rank
from dtsflow.reader.order import Shuffle, Tail
from dtsflow.testing import jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import BLOCK_BYTES, Kind

SETTING = Setting(None, {"train": PhaseSetting(0), "val": PhaseSetting(1)})
SMALL = {"operations": [{"_target_": "dtsflow.po.CenterCrop", "size": 8}]}


@pytest.fixture
def volumes(workdir: Path) -> dict[str, Any]:
    """A configuration of two phases with data, chain, batch and tail of their own."""
    train = [[(jpeg(seed=10 * b + i), i) for i in range(4 + b)] for b in range(3)]
    val = [[(jpeg(seed=100 + i), i) for i in range(5)], [(jpeg(seed=200), 1)]]
    write_block_volume(workdir / "train.dts", train)
    write_block_volume(workdir / "val.dts", val)
    return {
        "po": {
            "operations": [
                {"_target_": "dtsflow.po.RandomResizedCrop", "size": 16},
                {"_target_": "dtsflow.po.RandomHorizontalFlip"},
                {"_target_": "dtsflow.po.Normalize", "preset": "imagenet", "dtype": "FP16"},
            ]
        },
        "volume": {"path": "train.dts"},
        "batch_size": 4,
        "lanes": 2,
        "tail": "drop",
        "station": {"poison": True},
        "phases": {
            "train": None,
            "val": {
                "volume": {"path": "val.dts"},
                "po": SMALL,
                "batch_size": 3,
                "lanes": 1,
                "tail": "pad",
            },
        },
    }


def plan_of(values: dict[str, Any]) -> Plan:
    return plan_run(build(compose(values=values).values), Rank(0, 1))


def digest_of(run: Run, *passes: tuple[str, int]) -> list[tuple[str, int, str]]:
    """Phase, epoch and `sequence` of each pass."""
    sink = Digest().open(SETTING)
    for phase, epoch in passes:
        for batch in run.epoch(epoch, phase):
            sink.take(batch)
    found = sink.results()["digest"]["epochs"]
    return [(part["phase"], part["epoch"], part["sequence"]) for part in found]


def seen(batch: Batch) -> tuple[str, int, int]:
    return batch.phase, batch.epoch, batch.step


def test_without_phases_the_top_is_the_one_phase_train() -> None:
    values = {"_target_": "x", "seed": 3, "volume": {"path": "a"}, "batch_size": 4, "phases": {}}
    shared, phases = split_phases(values)
    assert shared == {"_target_": "x", "seed": 3}
    own = {"volume": {"path": "a"}, "batch_size": 4, "_target_": "dtsflow.pipeline.phase.Phase"}
    assert phases == {"train": own}


def test_a_phase_is_a_difference_and_another_class_replaces_a_node_whole() -> None:
    values = {
        "volume": {"_target_": "A", "path": "a", "more": 1},
        "reader": {"_target_": "R", "shuffle": "blocks", "mode": "auto"},
        "po": {"_target_": "C", "operations": [1, 2]},
        "phases": {
            "train": {"reader": {"mode": "resident"}},
            "val": {"volume": {"path": "b"}, "po": {"operations": [3]}},
            "other": {"volume": {"_target_": "B", "path": "c"}, "reader": {"shuffle": "full"}},
        },
    }
    _, phases = split_phases(values)
    assert list(phases) == ["train", "val", "other"]
    train, val, other = phases.values()
    assert train["reader"] == {"_target_": "R", "shuffle": "blocks", "mode": "resident"}
    assert val["reader"] == {"_target_": "R", "shuffle": "none", "mode": "auto"}
    assert val["volume"] == {"_target_": "A", "path": "b", "more": 1}
    assert val["po"] == {"_target_": "C", "operations": [3]}
    assert other["volume"] == {"_target_": "B", "path": "c"}
    assert other["reader"]["shuffle"] == "full"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["+phases.val.epochs=3"], "phases.val.epochs: a phase has no such key of its own."),
        (["+phases.val.voulme.path=x"], "phases.val.voulme: .*Did you mean 'volume'"),
        (["+phases.val.volume.pth=x"], "phases.val.volume.pth: Dts has no such key. Did you"),
        (["+phases.val.batch_size=0"], "phases.val.batch_size: .*greater than or equal to 1"),
        (["phases=3"], "phases: 3 is no mapping"),
        (["+phases.val=3"], "phases.val: 3 is no mapping"),
        (["+phases.a-b.tail=pad"], "phases: 'a-b' is no name of a phase"),
        (["+experiment=cifar10"], "phases.val.volume.path has no value yet"),
        (["+phases.val.tail=pad", "po=imagenet_val", "po.operations[1].size=-1"],
         "phases.val.po.operations.1..size"),
    ],
)  # fmt: skip
def test_what_no_phase_can_have_is_refused_by_its_path(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(compose(["volume.path=x", *words]).values)


def test_phases_have_numbers_by_their_names(volumes: dict[str, Any]) -> None:
    extra = {"volume": {"path": "val.dts"}, "po": SMALL}
    volumes["phases"] |= {"zoom": extra, "crop": extra, "test": extra}
    plan = plan_of(volumes)
    numbers = {name: phase.order.phase for name, phase in plan.phases.items()}
    assert numbers == {"train": 0, "val": 1, "test": 2, "crop": 3, "zoom": 4}
    assert len(State("train", 0, 0, plan.fingerprint()).to_json()) < 1024


def test_each_phase_is_planned_by_its_own_values(volumes: dict[str, Any]) -> None:
    plan = plan_of(volumes)
    train, val = plan.phases.values()
    assert (train.order.shuffle, val.order.shuffle) == (Shuffle.BLOCKS, Shuffle.NONE)
    assert (train.order.tail, val.order.tail) == (Tail.DROP, Tail.PAD)
    assert (train.order.steps, val.order.steps, plan.steps) == (3, 2, 5)
    assert (train.rows, val.rows) == (4, 3)
    page = plan_text(plan)
    for line in ("train: data", "val: graph", "1 epochs of train then val, 5 steps each"):
        assert line in page


@pytest.mark.parametrize("mode", ["resident", "streaming"])
def test_alternating_phases_are_those_of_each_alone(volumes: dict[str, Any], mode: str) -> None:
    volumes["reader"] = {"mode": mode}
    with dtsflow.open(volumes) as run:
        both = digest_of(run, ("train", 0), ("val", 0), ("train", 1), ("val", 1))
    with dtsflow.open(volumes) as run:
        assert digest_of(run, ("train", 0), ("train", 1)) == [p for p in both if p[0] == "train"]
        assert digest_of(run, ("val", 1), ("val", 0)) == [p for p in both if p[0] == "val"]
    for name, other in (("train", "val"), ("val", "train")):
        alone = {**volumes, "phases": {n: v for n, v in volumes["phases"].items() if n != other}}
        with dtsflow.open(alone) as run:
            assert digest_of(run, (name, 0), (name, 1)) == [p for p in both if p[0] == name]


def test_the_run_goes_through_all_phases_each_epoch(volumes: dict[str, Any]) -> None:
    with dtsflow.open(volumes, {"epochs": 2}) as run:
        places = [seen(batch) for batch in run]
        told = run.report()
    one = [("train", 0, 0), ("train", 0, 1), ("train", 0, 2), ("val", 0, 0), ("val", 0, 1)]
    assert places == [*one, *((phase, 1, step) for phase, _, step in one)]
    assert told["steps"] == 10
    assert told["steps_per_epoch"] == 5
    counted = {name: (of["images"], of["steps"]) for name, of in told["phases"].items()}
    assert counted == {"train": (24, 6), "val": (12, 4)}
    with dtsflow.open(volumes, {"epochs": 2, "max_steps": 7}) as run:
        assert [seen(batch) for batch in run] == places[:7]


def test_batches_of_all_phases_lie_at_the_same_addresses(volumes: dict[str, Any]) -> None:
    with dtsflow.open(volumes, {"epochs": 2}) as run:
        places = {
            (batch.zone, name): getattr(batch, name).ctypes.data
            for batch in run
            if batch.phase == "train"
            for name in ("labels", "images", "valid", "sample_ids")
        }
        for batch in run.epoch(5, "val"):
            assert batch.images.dtype == np.uint8
            assert batch.images.shape == (3, 8, 8, 3)
            for name in ("labels", "images", "valid", "sample_ids"):
                assert getattr(batch, name).ctypes.data == places[batch.zone, name]


def test_an_unknown_phase_is_refused_by_the_names_there_are(volumes: dict[str, Any]) -> None:
    with dtsflow.open(volumes) as run, pytest.raises(PlanError, match=r"'test'.*'train', 'val'"):
        run.epoch(0, "test")


def test_stopped_anywhere_and_gone_on_with_it_is_the_same_run(volumes: dict[str, Any]) -> None:
    values = {**volumes, "epochs": 2}
    with dtsflow.open(values) as run:
        whole = [(seen(b), b.images.tobytes(), b.sample_ids.tolist()) for b in run]
    for stop in range(len(whole)):
        with dtsflow.open(values, {"workers": 1}) as run:
            first = []
            for batch in run:
                first.append((seen(batch), batch.images.tobytes(), batch.sample_ids.tolist()))
                if len(first) == stop + 1:
                    break
            Path("saved.json").write_text(run.state().to_json())
        with dtsflow.open(values, {"resume": "saved.json", "workers": 3}) as run:
            rest = [(seen(b), b.images.tobytes(), b.sample_ids.tolist()) for b in run]
        assert first + rest == whole


def test_a_change_in_one_phase_is_refused_by_its_key(volumes: dict[str, Any]) -> None:
    with dtsflow.open(volumes) as run:
        next(iter(run))
        Path("saved.json").write_text(run.state().to_json())
    volumes["phases"]["val"]["batch_size"] = 2
    with pytest.raises(ConfigError, match="another batch_size:"):
        dtsflow.open(volumes, {"resume": "saved.json"})


def test_streaming_phases_share_one_allocation(volumes: dict[str, Any]) -> None:
    volumes["reader"] = {"mode": "streaming"}
    plan = plan_of(volumes)
    # Of two lanes two windows of two blocks are more than of one lane.
    assert plan.memory_entries["streaming windows"] == 2 * 2 * 2 * BLOCK_BYTES
    assert not [name for name in plan.memory_entries if name.startswith("resident")]
    with Run.open(plan) as run:
        assert run._resources is not None
        stores: list[Any] = [own.store for own in run._resources.phases.values()]
        bases = {id(store._shared.memory.base) for store in stores}
        assert len(bases) == 1
    volumes["phases"]["val"]["reader"] = {"mode": "resident"}
    entries = plan_of(volumes).memory_entries
    assert entries["resident blocks of val"] > 2 * BLOCK_BYTES
    assert entries["streaming windows"] == 2 * 2 * 2 * BLOCK_BYTES


def test_max_errors_counts_in_each_phase(volumes: dict[str, Any], workdir: Path) -> None:
    write_block_volume(workdir / "bad.dts", [[(b"no image", 0), (b"none", 1), (jpeg(), 2)]])
    volumes["phases"]["val"]["volume"]["path"] = "bad.dts"
    volumes["decode"] = {"on_error": "mask", "max_errors": 0}
    volumes["phases"]["val"]["decode"] = {"max_errors": 2}
    with dtsflow.open(volumes) as run:
        list(run)
        assert [(row.phase, row.step) for row in run.bad_samples] == [("val", 0), ("val", 0)]


def test_the_command_line_runs_and_sums_up_both_phases(
    workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = write_small_set(workdir / "cifar10_train.dts", Kind.CIFAR10, 40)
    test = write_small_set(workdir / "cifar10_test.dts", Kind.CIFAR10, 12)
    words = [f"volume.path={train}", f"phases.val.volume.path={test}", "batch_size=16", "epochs=2"]
    assert main(["+experiment=cifar10", *words, "consumer=digest"]) == 0
    told = capsys.readouterr().out
    assert "train, epoch 1: 2/2" in told
    assert "val, epoch 1: 1/1" in told
    assert "val 24 in 2 steps" in " ".join(told.split())
    report = json.loads(Path("runs/cifar10/report.json").read_text())
    assert [(part["phase"], part["epoch"]) for part in report["digest"]["epochs"]] == [
        ("train", 0), ("train", 1), ("val", 0), ("val", 1),
    ]  # fmt: skip
