"""Whole runs whose batches live on a device: the same batches as on the host."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtsflow
from dtsflow.config.compose import compose
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.pipeline.build import build
from dtsflow.pipeline.planner import plan_run
from dtsflow.ranks.group import Rank
from dtsflow.testing import jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import Kind

Rows = list[tuple[Any, ...]]


@pytest.fixture
def config(workdir: Path) -> dict[str, Any]:
    """Two phases of different batches, sizes and types; some rows are missing."""
    blocks = [[(jpeg(seed=10 * b + i), i) for i in range(4 + b)] for b in range(3)]
    blocks[1][2] = (b"no image", 2)
    write_block_volume(workdir / "train.dts", blocks)
    write_small_set(workdir / "val.dts", Kind.CIFAR10, 7)
    operations = [
        {"_target_": "dtsflow.po.RandomResizedCrop", "size": 16},
        {"_target_": "dtsflow.po.RandomHorizontalFlip"},
        {"_target_": "dtsflow.po.Normalize", "preset": "imagenet", "dtype": "FP16"},
    ]
    cifar = [{"_target_": "dtsflow.po.Normalize", "preset": "cifar", "dtype": "FP16"}]
    return {
        "volume": {"path": "train.dts"},
        "decode": {"on_error": "mask"},
        "po": {"operations": operations},
        "batch_size": 4,
        "workers": 2,
        "lanes": 2,
        "station": {"poison": True},
        "phases": {
            "train": None,
            "val": {
                "volume": {"path": "val.dts"},
                "po": {"operations": cifar},
                "batch_size": 3,
                "lanes": 1,
            },
            "raw": {"po": {"operations": [{"_target_": "dtsflow.po.CenterCrop", "size": 8}]}},
        },
    }


def rows_of(config: dict[str, Any], **arena: Any) -> Rows:
    """Everything that two epochs hand out, copied to the host."""
    given = {**config, "arena": arena}
    found: Rows = []
    with dtsflow.open(given) as run:
        for epoch in range(2):
            for phase in config["phases"]:
                for batch in run.epoch(epoch, phase):
                    here, valid = batch.on_host(), batch.compact().on_host()
                    arrays = (here.images, here.padded, here.labels, valid.images, valid.labels)
                    beside = (batch.valid.tobytes(), batch.sample_ids.tobytes())
                    found.append((phase, batch.step, *(a.tobytes() for a in arrays), *beside))
    return found


@pytest.mark.usefixtures("has_device")
@pytest.mark.parametrize("normalize_on", ["host", "device"])
@pytest.mark.parametrize("channel_align", [1, 4])
def test_a_run_hands_out_on_a_device_what_it_does_on_the_host(
    config: dict[str, Any], normalize_on: str, channel_align: int
) -> None:
    config["station"]["channel_align"] = channel_align
    expected = rows_of(config, _target_="dtsflow.arena.Host")
    assert len({row[2] for row in expected}) > len(expected) // 2  # not all alike
    found = rows_of(config, _target_="dtsflow.arena.Device", normalize_on=normalize_on)
    assert found == expected


@pytest.mark.usefixtures("has_device")
@pytest.mark.parametrize("normalize_on", ["host", "device"])
def test_rows_that_were_kept_reach_a_device_as_others_do(
    config: dict[str, Any], normalize_on: str
) -> None:
    config["decode"] |= {"sdmp_factor": 2, "store_bytes": 0}
    expected = rows_of(config, _target_="dtsflow.arena.Host")
    config["decode"]["store_bytes"] = "auto"
    for phase in ("val", "raw"):
        config["phases"][phase]["decode"] = {"cpvs": True}
    assert rows_of(config, _target_="dtsflow.arena.Host") == expected
    found = rows_of(config, _target_="dtsflow.arena.Device", normalize_on=normalize_on)
    assert found == expected


@pytest.mark.usefixtures("has_device")
def test_a_pass_that_is_left_early_is_followed_by_right_batches(config: dict[str, Any]) -> None:
    arena = {"_target_": "dtsflow.arena.Device"}
    with dtsflow.open({**config, "arena": arena}) as run:
        first = next(iter(run.epoch(0)))
        ids = first.sample_ids.copy()
        for batch in run.epoch(0, start_step=1):
            assert not set(ids[ids >= 0]) & set(batch.sample_ids[batch.valid])
            break
        again = next(iter(run.epoch(0)))
        assert np.array_equal(again.sample_ids, ids)


def test_staging_is_planned_only_where_a_device_normalises(config: dict[str, Any]) -> None:
    def plan() -> MemoryPlan:
        return plan_run(build(compose(values=config).values), Rank(0, 1)).memory

    host = plan()
    assert not host.region_tensors(Region.T_TEMP_INT8)
    config["arena"] = {"_target_": "dtsflow.arena.Device", "normalize_on": "device"}
    staged = plan()
    names = [tensor.name for tensor in staged.region_tensors(Region.T_TEMP_INT8)]
    assert names == ["staged pixels", "staged valid rows"]
    assert [t.offset for t in staged.region_tensors(Region.I_B_DATA)] == [
        t.offset for t in host.region_tensors(Region.I_B_DATA)
    ]
