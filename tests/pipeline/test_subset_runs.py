"""A run over a part of a data set delivers the rows of that part, and no others."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtsflow
from dtsflow.cli.run import stream
from dtsflow.config.compose import compose
from dtsflow.errors import BlockError, ConfigError, DecodeError, PlanError
from dtsflow.pipeline.build import build
from dtsflow.pipeline.explain import plan_text
from dtsflow.pipeline.plan import Plan
from dtsflow.pipeline.planner import plan_run
from dtsflow.pipeline.run import Run
from dtsflow.ranks.group import Rank
from dtsflow.reader.reader import Mode
from dtsflow.testing import damage, jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import BLOCK_BYTES, Kind

COUNTS = [7, 3, 0, 9, 1, 6, 8, 2, 5]
STARTS = np.cumsum([0, *COUNTS]).tolist()
BLOCKS = [
    [(jpeg(20 + (7 * b + i) % 9, 24, seed=100 * b + i), (b + i) % 3) for i in range(count)]
    for b, count in enumerate(COUNTS)
]
LABELS = [label for block in BLOCKS for _, label in block]
SUBSET = {"classes": [0, 2], "fraction": 0.75}  # 21 samples

Row = tuple[int, bytes]  # label and pixels


@pytest.fixture
def volume(workdir: Path) -> Path:
    return write_block_volume(workdir / "x.dts", BLOCKS)


def config(path: Path, subset: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "volume": {"path": path},
        "batch_size": 8,
        "lanes": 4,
        "epochs": 2,
        "workers": 2,
        "reader": {"window_bytes": 8 * BLOCK_BYTES, "subset": subset},
        "station": {"poison": True, "timeout_s": 20},
        "po": {
            "operations": [
                {"_target_": "dtsflow.po.RandomResizedCrop", "size": 12},
                {"_target_": "dtsflow.po.RandomHorizontalFlip"},
                {"_target_": "dtsflow.po.Normalize", "preset": "imagenet", "dtype": "FP16"},
            ]
        },
    }
    return base | more


def rows_of(run: Run, epoch: int = 0, start_step: int = 0) -> list[tuple[int, Row]]:
    return [
        (int(batch.sample_ids[i]), (int(batch.labels[i]), batch.padded[i].tobytes()))
        for batch in run.epoch(epoch, start_step=start_step)
        for i in np.flatnonzero(batch.valid).tolist()
    ]


def rows(path: Path, subset: dict[str, Any] | None, *words: str, **more: Any) -> dict[int, Row]:
    with dtsflow.open(config(path, subset, **more), *words) as run:
        found = rows_of(run)
    assert len(dict(found)) == len(found), "a sample came twice"
    return dict(found)


def plan_of(path: Path, subset: dict[str, Any] | None, **more: Any) -> Plan:
    values = compose(values={**config(path, subset, **more), "volume": {"path": str(path)}}).values
    return plan_run(build(values), Rank(0, 1))


def chosen(path: Path, subset: dict[str, Any], **more: Any) -> list[int]:
    selection = plan_of(path, subset, **more).phases["train"].selection
    assert selection is not None
    found: list[int] = selection.ids.tolist()
    return found


@pytest.mark.parametrize("mode", ["resident", "streaming"])
def test_a_sample_has_the_same_label_and_pixels_as_in_a_run_over_all(
    volume: Path, mode: str
) -> None:
    whole = rows(volume, None)
    for subset in (SUBSET, {"limit": 1}, {"fraction": 0.3}, {"classes": [1]}):
        ids = chosen(volume, subset)
        assert rows(volume, subset, f"reader.mode={mode}") == {i: whole[i] for i in ids}


@pytest.mark.parametrize("tail", ["pad", "drop", "wrap"])
@pytest.mark.parametrize("shuffle", ["none", "blocks"])
def test_readers_workers_and_threads_deliver_the_same_part(
    volume: Path, tail: str, shuffle: str
) -> None:
    def digests(*words: str) -> Any:
        values = config(volume, SUBSET, consumer="digest", tail=tail)
        with dtsflow.open(values, f"reader.shuffle={shuffle}", *words) as run:
            stream(run)
            return run.results["digest"]["epochs"]

    wanted = digests("reader.mode=resident", "workers=1")
    for mode, workers, threads in itertools.product(("resident", "streaming"), (1, 8), (1, 8)):
        more = (f"reader.mode={mode}", f"workers={workers}", f"reader.io_threads={threads}")
        assert digests(*more) == wanted


@pytest.mark.parametrize("shuffle", ["none", "blocks", "full"])
def test_every_epoch_has_each_sample_of_the_part_once(volume: Path, shuffle: str) -> None:
    ids = chosen(volume, SUBSET)
    assert len(ids) == 21
    for tail, wanted in (("pad", 21), ("drop", 16), ("wrap", 24)):
        values = config(volume, SUBSET, tail=tail)
        with dtsflow.open(values, f"reader.shuffle={shuffle}") as run:
            for epoch in range(2):
                found = [sample_id for sample_id, _ in rows_of(run, epoch)]
                assert len(found) == wanted
                assert set(found) == set(ids) if tail != "drop" else set(found) < set(ids)
                assert tail == "wrap" or len(set(found)) == wanted


def test_the_ranks_share_the_part_between_them(volume: Path) -> None:
    plan = plan_of(volume, SUBSET)
    assert plan.phases["train"].selection is not None
    found: list[int] = []
    for rank in range(2):
        lanes = plan.phases["train"].order.lanes_of(rank, 2)
        own = plan.phases["train"].selection.located(
            plan.phases["train"].order.epoch(0).rows(0, plan.phases["train"].order.steps, lanes)
        )
        found += own.ids[own.valid].tolist()
    assert sorted(found) == chosen(volume, SUBSET)


@pytest.mark.parametrize("stop", [0, 1, 2])
def test_a_stopped_run_goes_on_with_what_is_left_of_its_part(volume: Path, stop: int) -> None:
    with dtsflow.open(config(volume, SUBSET)) as run:
        wanted = rows_of(run, start_step=stop + 1)
        for batch in run.epoch(0):
            if batch.step == stop:
                Path("saved.json").write_text(run.state().to_json())
    more = ("reader.mode=streaming", "workers=5", "reader.io_threads=1")
    with dtsflow.open(config(volume, SUBSET, resume="saved.json"), *more) as run:
        assert (run.start.epoch, run.start.step) in {(0, stop + 1), (1, 0)}
        assert rows_of(run, start_step=stop + 1) == wanted


def test_another_part_is_refused_and_the_same_one_by_other_means_is_not(volume: Path) -> None:
    with dtsflow.open(config(volume, SUBSET)) as run:
        Path("saved.json").write_text(run.state().to_json())
    for other in (None, {"classes": [0, 2]}, {**SUBSET, "limit": 20}):
        with pytest.raises(ConfigError, match=r"state of a run with another subset: "):
            dtsflow.open(config(volume, other, resume="saved.json"))
    Path("ids.txt").write_text("\n".join(map(str, chosen(volume, SUBSET))))
    for same in ({"ids": "ids.txt"}, {**SUBSET, "classes": [2, 0], "limit": 21}):
        assert plan_of(volume, same).digest() == plan_of(volume, SUBSET).digest()
        dtsflow.open(config(volume, same, resume="saved.json")).close()


def test_all_is_no_part(volume: Path) -> None:
    plans = [plan_of(volume, subset) for subset in (None, {}, {"fraction": 1.0}, {"limit": 41})]
    assert all(plan.phases["train"].selection is None for plan in plans)
    assert all("subset" not in plan.fingerprint() for plan in plans)
    assert len({plan.digest() for plan in plans}) == 1
    assert plan_of(volume, {"limit": 40}).digest() != plans[0].digest()


def test_the_plan_says_how_much_it_takes(volume: Path, workdir: Path) -> None:
    assert "subset: 21 of 41 samples, in 7 blocks\n" in plan_text(plan_of(volume, SUBSET))
    assert "subset" not in plan_text(plan_of(volume, None))
    digits = write_small_set(workdir / "mnist_test.dts", Kind.MNIST, 1234)
    values = config(digits, {"limit": 1000}, po="mnist")
    with dtsflow.open(values) as run:
        assert "subset: 1,000 of 1,234 samples\n" in plan_text(run.plan)


@pytest.mark.parametrize("mode", ["resident", "streaming"])
def test_a_block_without_a_chosen_sample_is_not_read(volume: Path, mode: Mode) -> None:
    ids = [STARTS[3], STARTS[5], STARTS[5] + 2]
    Path("ids.txt").write_text("\n".join(map(str, ids)))
    plan = plan_of(volume, {"ids": "ids.txt"}, lanes=1)
    own = plan.phases["train"]
    phase = replace(own.phase, reader=replace(own.phase.reader, mode=mode))
    plan = replace(plan, phases={"train": replace(own, phase=phase)})
    for block in set(range(len(COUNTS))) - {3, 5}:
        damage(volume, (1 + block) * BLOCK_BYTES, b"no block")
    with Run.open(plan) as run:
        assert {sample_id for sample_id, _ in rows_of(run)} == set(ids)
    if mode == "resident":
        assert plan.memory_entries["resident blocks"] == 2 * BLOCK_BYTES + 41 * 20


def spoil(path: Path, *ids: int) -> Path:
    """Write the volume anew with samples that are no images."""
    flat = [(b"no image", label) for label in LABELS]
    bad = [
        [flat[STARTS[b] + i] if STARTS[b] + i in ids else sample for i, sample in enumerate(block)]
        for b, block in enumerate(BLOCKS)
    ]
    path.unlink()
    return write_block_volume(path, bad)


def test_only_samples_of_the_part_replace_a_bad_one(volume: Path) -> None:
    ids = chosen(volume, SUBSET)
    others = set(range(41)) - set(ids)
    block_of = np.repeat(np.arange(len(COUNTS)), COUNTS)
    bad = [ids[2], ids[3], *[i for i in ids if block_of[i] == 5]]
    spoil(volume, *bad)
    with dtsflow.open(config(volume, SUBSET), "decode.on_error=replace") as run:
        found = [sample_id for sample_id, _ in rows_of(run)]
        substitutes = {row.sample_id: row.substitute for row in run.bad_samples}
    assert not set(found) & (others | set(bad))
    for sample_id, substitute in substitutes.items():
        block = int(block_of[sample_id])
        own = [i for i in ids if block_of[i] == block]
        turn = own.index(sample_id)
        candidates = [*own[turn + 1 :], *own[:turn]]
        for after in range(1, len(COUNTS)):
            candidates += [i for i in ids if block_of[i] == (block + after) % len(COUNTS)]
        assert substitute == next(i for i in candidates if i not in bad)
    assert sorted(substitutes) == sorted(bad)


def test_a_part_that_is_all_bad_has_no_substitutes(volume: Path) -> None:
    spoil(volume, *chosen(volume, SUBSET))
    with (
        dtsflow.open(config(volume, SUBSET), "decode.on_error=replace") as run,
        pytest.raises(DecodeError, match=r"every sample of reader\.subset is bad"),
    ):
        rows_of(run)


@pytest.mark.parametrize("on_error", ["mask", "replace"])
def test_a_damaged_block_that_has_the_whole_part_is_an_error(volume: Path, on_error: str) -> None:
    Path("ids.txt").write_text(f"{STARTS[3]}\n{STARTS[3] + 4}")
    plan = plan_of(volume, {"ids": "ids.txt"}, decode={"on_error": on_error})
    damage(volume, 4 * BLOCK_BYTES, b"no block")
    with Run.open(plan) as run, pytest.raises(BlockError, match="block 3 of"):
        rows_of(run)


def test_a_digit_has_the_same_pixels_in_a_part_of_its_set(workdir: Path) -> None:
    digits = write_small_set(workdir / "mnist_test.dts", Kind.MNIST, 300)
    crop = {"_target_": "dtsflow.po.RandomCrop", "size": 28, "padding": 2}
    cast = {"_target_": "dtsflow.po.Normalize", "preset": "mnist"}
    more: dict[str, Any] = {"po": {"operations": [crop, cast]}}
    whole = rows(digits, None, **more)
    assert len(whole) == 300
    for subset in ({"classes": ["3", 7]}, {"fraction": 0.1}, {"classes": [0], "limit": 5}):
        for shuffle in ("none", "blocks"):
            found = rows(digits, subset, f"reader.shuffle={shuffle}", **more)
            assert found == {i: whole[i] for i in chosen(digits, subset, **more)}


def test_it_is_chosen_on_the_command_line(volume: Path) -> None:
    words = ("reader.subset.classes=[0,2]", "reader.subset.fraction=0.75")
    with dtsflow.open(config(volume, {}), *words) as run:
        assert run.plan.phases["train"].order.samples == 21
    for word in ("reader.subset={limit: 3}", "reader.subset.limit=3"):
        values = compose([f"volume.path={volume}", "po=imagenet_val", word]).values
        assert plan_run(build(values), Rank(0, 1)).phases["train"].order.samples == 3
    with pytest.raises(ConfigError, match=r"reader\.subset\.fractoin: .*mean 'fraction'"):
        compose(["reader.subset.fractoin=0.5"])


@pytest.mark.parametrize(
    ("subset", "why"),
    [
        ({"fractoin": 0.5}, r"^reader\.subset\.fractoin: Unexpected"),
        ({"fraction": 2}, r"^reader\.subset\.fraction: .*less than or equal to 1 \(got 2\)"),
        ({"classes": "cat"}, r"^reader\.subset\.classes: .*valid tuple"),
        ({"limit": "some"}, r"^reader\.subset\.limit: "),
        ({"ids": "absent.txt"}, r"^reader\.subset\.ids: 'absent.txt' cannot be read"),
        ({"classes": [5]}, r"^reader\.subset\.classes: the data set has no class 5"),
        ("0.5", r"^reader\.subset: "),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_path(volume: Path, subset: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        dtsflow.open(config(volume, subset))


def test_a_part_smaller_than_a_batch_leaves_no_batch_to_drop(volume: Path) -> None:
    with pytest.raises(PlanError, match="3 samples are fewer than batch_size=8"):
        dtsflow.open(config(volume, {"limit": 3}, tail="drop"))
