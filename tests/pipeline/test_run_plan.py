import os
import pickle
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from dtsflow.config.compose import compose
from dtsflow.errors import MemoryPlanError
from dtsflow.pipeline.build import build
from dtsflow.pipeline.plan import Plan
from dtsflow.pipeline.planner import plan_run
from dtsflow.pipeline.run import Run
from dtsflow.ranks.group import Rank
from dtsflow.spec import Place
from dtsflow.tensor.dtype import DType
from dtsflow.testing import jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import BLOCK_BYTES, Kind

WORDS = ("+experiment=imagenet_train", "tail=pad", "batch_size=24", "po.operations.0.size=16")


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    images = [(jpeg(seed=i), i) for i in range(6)]
    return write_block_volume(tmp_path / "x.dts", [images[:4], [], images[4:]])


def plan_of(path: Path, *words: str, rank: Rank = Rank(0, 1)) -> Plan:  # noqa: B008  # frozen
    return plan_run(build(compose([*WORDS, f"volume.path={path}", *words]).values), rank)


def test_planning_opens_allocates_and_starts_nothing(volume: Path) -> None:
    before = threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))
    plan = plan_of(volume)
    assert (threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))) == before
    assert pickle.loads(pickle.dumps(plan)).digest() == plan.digest()


def test_every_byte_of_a_run_has_its_entry(volume: Path) -> None:
    plan = plan_of(volume)
    assert plan.memory_entries == {
        "zones": plan.memory.total_bytes,
        "rows beside the zones": 2 * 24 * 9,
        "resident blocks": 2 * BLOCK_BYTES + 6 * 20,
        "order of an epoch": 0,
    }
    assert plan.total_bytes == sum(plan.memory_entries.values())
    assert plan_of(volume, "reader.shuffle=full").memory_entries["order of an epoch"] > 0


def test_each_edge_carries_what_its_stage_makes(volume: Path) -> None:
    edges = dict(plan_of(volume).phases["train"].edges)
    assert list(edges) == [
        "volume", "reader", "decode", "po.operations[0]", "po.operations[1]", "po.operations[2]",
        "station",
    ]  # fmt: skip
    assert str(edges["decode"]) == "image UINT8[?x?x3], label INT32 (host)"
    assert str(edges["po.operations[0]"]) == "image UINT8[16x16x3], label INT32 (host)"
    assert str(edges["po.operations[2]"]) == "image FP16[16x16x3], label INT32 (host)"
    labels, images = edges["station"].fields
    assert (labels.shape, labels.dtype, labels.place) == ((24,), DType.INT32, Place.ZONE)
    assert images.shape == (24, 16, 16, 4)


def test_read_amplification_counts_the_blocks_that_hold_samples(volume: Path) -> None:
    assert plan_of(volume, "lanes=1").phases["train"].read_amplification == 1
    assert plan_of(volume, "lanes=3").phases["train"].read_amplification == 1 + 2 / 2


def test_the_digest_is_the_same_for_whatever_does_not_change_a_batch(
    volume: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.dts"
    copy.write_bytes(volume.read_bytes())
    os.utime(copy, (1, 1))
    same = ("name=x", "epochs=9", "workers=3", "reader.io_threads=7", "max_steps=1")
    assert plan_of(copy, *same).digest() == plan_of(volume).digest()


@pytest.mark.parametrize(
    "change",
    [
        "seed=1",
        "batch_size=48",
        "lanes=4",
        "tail=drop",
        "reader.shuffle=none",
        "reader.window_bytes=100000000000",
        "decode.orientation=apply",
        "po.operations.0.size=17",
        "po.operations.2.dtype=FP32",
    ],
)
def test_the_digest_differs_for_whatever_changes_a_batch(tmp_path: Path, change: str) -> None:
    path = write_block_volume(tmp_path / "x.dts", [[(jpeg(seed=i), 0) for i in range(50)]])
    assert plan_of(path, change).digest() != plan_of(path).digest()


def test_other_data_is_another_digest(tmp_path: Path) -> None:
    paths = [
        write_small_set(tmp_path / f"mnist_test{n}.dts", Kind.MNIST, 30, seed=n) for n in (0, 1)
    ]
    words = ("po=mnist", "po.operations=[]")
    digests = [
        plan_run(build(compose([f"volume.path={path}", *words]).values), Rank(0, 1)).digest()
        for path in paths
    ]
    assert digests[0] != digests[1]


def test_ranks_of_one_run_share_everything_but_their_rows(volume: Path) -> None:
    plans = [plan_of(volume, rank=Rank(r, 2)) for r in range(2)]
    assert plans[0].digest() == plans[1].digest()
    assert [plan.phases["train"].first_row for plan in plans] == [0, 12]


def test_a_plan_over_its_limit_starts_no_thread(volume: Path) -> None:
    plan = plan_of(volume, "memory.limit=1000")
    before = threading.active_count()
    with pytest.raises(MemoryPlanError, match="resident blocks"):
        Run.open(plan)
    assert threading.active_count() == before


def test_the_ranks_of_a_node_share_its_memory_and_one_copy_of_the_blocks(volume: Path) -> None:
    node = Rank(0, 2, local_size=2)
    plan = plan_of(volume, "reader=resident", rank=node)
    blocks = 2 * BLOCK_BYTES + 6 * 20
    others = sum(plan.memory_entries.values()) - blocks
    needed = blocks + 2 * others
    words = [f"memory.limit={limit}" for limit in (needed, needed - 1)]
    enough, short = (plan_of(volume, "reader=resident", word, rank=node) for word in words)
    enough.check_memory()
    with pytest.raises(MemoryPlanError, match=f"needs {needed:,} bytes"):
        short.check_memory()
    assert plan.room == plan.pipeline.memory.allowed_bytes() - 2 * others


def test_windows_are_each_ranks_own(volume: Path) -> None:
    plan = plan_of(volume, "reader=streaming", "lanes=4", rank=Rank(1, 4, local_size=4))
    windows = plan.memory_entries["streaming windows"]
    limited = plan_of(volume, "reader=streaming", "lanes=4", "memory.limit=1", rank=plan.rank)
    with pytest.raises(MemoryPlanError, match=f"streaming windows {4 * windows:,}"):
        limited.check_memory()


def test_what_all_ranks_agreed_on_is_how_a_plan_reads(volume: Path) -> None:
    plan = replace(plan_of(volume), agreed={"train": ("streaming", "so they said")})
    assert plan.reading["train"] == ("streaming", "so they said")
    assert "streaming windows" in plan.memory_entries


def test_facts_for_other_ranks_are_short_and_differ_with_the_run(volume: Path) -> None:
    facts = plan_of(volume).facts()
    assert facts == plan_of(volume, "workers=3", rank=Rank(1, 2)).facts() | {"plan": facts["plan"]}
    assert all(len(text) <= 60 for text in facts.values())
    other = plan_of(volume, "seed=7", "max_steps=2").facts()
    differing = {name for name in facts if facts[name] != other[name]}
    assert differing == {"seed", "max_steps", "plan"}
    assert (other["seed"], other["max_steps"]) == ("7", "2")
