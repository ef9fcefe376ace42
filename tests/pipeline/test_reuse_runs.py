"""One decode for several epochs, and kept validation rows, in whole runs."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inverted import Inverted
from PIL import Image

import dtsflow
from dtsflow.config.compose import compose
from dtsflow.errors import ConfigError, PlanError
from dtsflow.native import core
from dtsflow.pipeline.build import build
from dtsflow.pipeline.explain import plan_text
from dtsflow.pipeline.planner import plan_run
from dtsflow.pipeline.run import Run
from dtsflow.po import Chain, RandomResizedCrop
from dtsflow.po.operation import Draws, Params, Pixels, Row, Sizes
from dtsflow.po.operation import Image as Picture
from dtsflow.ranks.group import Rank
from dtsflow.report.bad_samples import BadRow
from dtsflow.spec import ImageSpec
from dtsflow.tensor.dtype import DType
from dtsflow.testing import damage, jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import BLOCK_BYTES, HEADER_BYTES, Kind

Tree = dict[str, Any]
Found = dict[tuple[int, int], tuple[bytes, ...]]
"""By step and row of the global batch: id, label, then the bytes of each field."""

SAMPLES = 22


def op(name: str, **values: Any) -> Tree:
    return {"_target_": f"dtsflow.po.{name}", **values}


CROP, FLIP = op("RandomResizedCrop", size=12), op("RandomHorizontalFlip")
FP16 = op("Normalize", preset="imagenet", dtype="FP16")
CHAINS: dict[str, list[Tree]] = {
    "normalised": [CROP, FLIP, FP16],
    "bytes": [CROP, FLIP],
    "erased": [
        CROP,
        op("RandomErasing", p=0.7),
        FLIP,
        op("GaussianNoise", mean=3.0, sigma=9.0),
        FP16,
    ],
    "coloured": [op("ColorJitter", brightness=0.4), CROP, op("RandomAutocontrast"), FP16],
    "padded": [op("Pad", padding=3), op("RandomCrop", size=16), FP16],
}


def picture(width: int, height: int, kind: str) -> bytes:
    file = io.BytesIO()
    noise = np.random.default_rng(width).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(noise).save(file, kind)
    return file.getvalue()


@pytest.fixture
def volume(workdir: Path) -> Path:
    """Four blocks of JPEGs, and among them a PNG."""
    images = [(jpeg(20 + i, 40 - i, seed=i), i % 4) for i in range(SAMPLES)]
    images[9] = (picture(31, 23, "PNG"), 1)
    return write_block_volume(
        workdir / "tiny_train_lv0.dts", [images[:5], images[5:11], images[11:17], images[17:]]
    )


@pytest.fixture(params=["native", "reference"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The engine at work."""
    if request.param == "reference":
        monkeypatch.setattr("dtsflow.pipeline.phase.load", lambda: None)
        monkeypatch.setattr("dtsflow.pipeline.phase.warn_absent", lambda: None)
    elif core.load() is None:
        pytest.skip("the native core was not built")
    name: str = request.param
    return name


def tree_of(path: Path, decode: Tree, **values: Any) -> Tree:
    return {
        "volume": {"path": str(path)},
        "decode": {"_target_": "dtsflow.decode.Auto", **decode},
        "po": {"operations": CHAINS["normalised"]},
        "station": {"poison": True, "timeout_s": 20},
        "batch_size": 4,
        "lanes": 2,
        "workers": 2,
        **values,
    }


def open_run(path: Path, decode: Tree, **values: Any) -> Run:
    return dtsflow.open(tree_of(path, decode, **values))


def rows_of(run: Run, epoch: int, start_step: int = 0, phase: str = "train") -> Found:
    found: Found = {}
    for batch in run.epoch(epoch, phase, start_step=start_step):
        fields = [batch.images, *batch.fields.values()]
        for row in np.flatnonzero(batch.valid):
            found[batch.step, batch.first_row + int(row)] = (
                batch.sample_ids[row].tobytes(),
                batch.labels[row].tobytes(),
                *(array[row].tobytes() for array in fields),
            )
        assert not any(array[~batch.valid].any() for array in fields)
    return found


def epochs_of(path: Path, decode: Tree, epochs: int = 5, **values: Any) -> list[Found]:
    with open_run(path, decode, **values) as run:
        return [rows_of(run, epoch) for epoch in range(epochs)]


def by_id(rows: Found) -> dict[bytes, tuple[bytes, ...]]:
    return {row[0]: row[1:] for row in rows.values()}


def counted(run: Run, phase: str = "train") -> tuple[int, int]:
    rows = run.report()["phases"][phase]["rows"]
    return rows["decoded"], rows["reused"]


@pytest.mark.parametrize("chain", CHAINS)
def test_what_is_reused_is_what_would_be_decoded(volume: Path, chain: str, way: str) -> None:
    assert way
    po = {"operations": CHAINS[chain]}
    alone = [by_id(rows) for rows in epochs_of(volume, {}, po=po)]
    for factor in (2, 3, 4):
        with open_run(volume, {"sdmp_factor": factor}, po=po) as run:
            found = [by_id(rows_of(run, epoch)) for epoch in range(5)]
            assert found == alone
            groups = -(-5 // factor)
            assert counted(run) == (groups * SAMPLES, (5 - groups) * SAMPLES)


def test_epochs_of_a_group_have_the_same_lanes_in_another_order(volume: Path) -> None:
    found = epochs_of(volume, {"sdmp_factor": 3}, 6)
    ids = [[[row[0] for place, row in one.items() if place[1] // 2 == lane] for lane in (0, 1)]
           for one in found]  # fmt: skip
    sets = [[frozenset(lane) for lane in lanes] for lanes in ids]
    assert sets[0] == sets[1] == sets[2] != sets[3] == sets[4] == sets[5]
    assert len({tuple(lanes[0]) for lanes in ids}) == 6


@pytest.mark.parametrize("mode", ["streaming", "resident"])
def test_no_row_depends_on_what_is_kept(volume: Path, mode: str, way: str) -> None:
    assert way
    values: Tree = {"reader": {"mode": mode, "window_bytes": 1 << 25}}
    expected = epochs_of(volume, {"sdmp_factor": 3, "store_bytes": 0}, **values)
    with open_run(volume, {"sdmp_factor": 3}, **values) as run:
        budget = run.plan.phases["train"].row_budget
        assert budget is not None
        assert run.plan.kept_samples == {"train": SAMPLES}
    for samples in (1, 9, SAMPLES):
        decode = {"sdmp_factor": 3, "store_bytes": samples * budget.sample_bytes}
        with open_run(volume, decode, **values) as run:
            assert [rows_of(run, epoch) for epoch in range(5)] == expected
            assert counted(run) == (5 * SAMPLES - 3 * samples, 3 * samples)


def test_neither_workers_nor_ranks_change_a_row(volume: Path, way: str) -> None:
    assert way
    found = []
    for workers, size in ((1, 1), (4, 1), (2, 2)):
        values = {"workers": workers, "po": {"operations": CHAINS["erased"]}}
        pipeline = build(compose(values=tree_of(volume, {"sdmp_factor": 2}, **values)).values)
        rows: list[Found] = [{}, {}, {}]
        for index in range(size):
            with Run.open(plan_run(pipeline, Rank(index, size))) as run:
                rows = [one | rows_of(run, epoch) for epoch, one in enumerate(rows)]
        found.append(rows)
    assert found[0] == found[1] == found[2]


def test_a_run_that_goes_on_inside_a_group_has_the_same_rows(volume: Path) -> None:
    decode = {"sdmp_factor": 4}
    whole = epochs_of(volume, decode, 5)
    with open_run(volume, decode) as run:
        rest = rows_of(run, 1, start_step=3)
        assert rest == {place: row for place, row in whole[1].items() if place[0] >= 3}
        assert [rows_of(run, epoch) for epoch in (2, 3, 4)] == whole[2:]
        # Epoch 2 decodes what epoch 1 did not come to, for epoch 3 as well.
        assert counted(run) == (2 * SAMPLES, 10 + SAMPLES)
    with open_run(volume, decode) as run:  # in any order, and again
        for epoch in (3, 0, 2, 4, 2, 1):
            assert rows_of(run, epoch) == whole[epoch]


def test_a_pass_left_early_leaves_no_half_written_row(volume: Path) -> None:
    whole = epochs_of(volume, {"sdmp_factor": 2}, 2)
    with open_run(volume, {"sdmp_factor": 2}) as run:
        for batch in run.epoch(0):
            if batch.step == 2:
                break
        assert rows_of(run, 1) == whole[1]
        assert rows_of(run, 0) == whole[0]


def test_views_and_mixed_batches_are_the_same(volume: Path, way: str) -> None:
    assert way
    po = {
        "operations": CHAINS["erased"],
        "views": {"small": [op("RandomResizedCrop", size=7), FLIP], "whole": CHAINS["padded"]},
        "batch": [op("Mixup")],
    }
    assert epochs_of(volume, {"sdmp_factor": 3}, 4, po=po) == epochs_of(
        volume, {"sdmp_factor": 3, "store_bytes": 0}, 4, po=po
    )


@dataclass(frozen=True)
class Shifted:
    """Makes FP32 of an image, and adds one draw to it."""

    words: int = 1

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return replace(spec, dtype=DType.FP32)

    def draw(self, draws: Draws, sizes: Sizes) -> Params:
        assert len(draws) == len(sizes)
        found = np.empty(len(sizes), [("by", np.float64)])
        found["by"] = draws.uniform(0)
        return found

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:
        assert len(params) == len(sizes)
        return sizes

    def apply(self, image: Picture, out: Pixels, params: Row) -> None:
        out[...] = image + params["by"]


def test_operations_of_python_are_reused_alike(volume: Path, way: str) -> None:
    assert way
    chain = Chain((Inverted(), RandomResizedCrop(8), Inverted(), Shifted()))
    found = []
    for factor in (1, 3):
        pipeline = build(compose(values=tree_of(volume, {"sdmp_factor": factor})).values)
        train = replace(pipeline.phases["train"], po=chain)
        with Run.open(plan_run(replace(pipeline, phases={"train": train}), Rank(0, 1))) as run:
            found.append([by_id(rows_of(run, epoch)) for epoch in range(4)])
    assert found[0] == found[1]


def test_a_decode_at_a_part_of_the_size_is_that_of_each_epoch(workdir: Path, way: str) -> None:
    assert way
    images = [(jpeg(80 + 37 * i, 220 - 9 * i, seed=i), 0) for i in range(9)]
    path = write_block_volume(workdir / "big_train_lv0.dts", [images])
    alone = epochs_of(path, {"scaled": True}, 4)
    found = epochs_of(path, {"scaled": True, "sdmp_factor": 4}, 4)
    assert [by_id(rows) for rows in found] == [by_id(rows) for rows in alone]
    plain = epochs_of(path, {"sdmp_factor": 4}, 4)
    assert found != plain


@pytest.mark.parametrize("tail", ["wrap", "drop"])
def test_tails_and_mixes_reuse_what_is_theirs(volume: Path, workdir: Path, tail: str) -> None:
    other = write_block_volume(
        workdir / "more_train_lv0.dts", [[(jpeg(25, 25, seed=90 + i), 3 - i % 4) for i in range(5)]]
    )
    mix = {
        name: {"volume": {"_target_": "dtsflow.volume.Dts", "path": str(path)}, "weight": weight}
        for name, path, weight in (("first", volume, 0.5), ("second", other, 0.5))
    }
    found = []
    decoded = reused = 0
    for decode in ({"sdmp_factor": 3, "store_bytes": 0}, {"sdmp_factor": 3}):
        tree = tree_of(volume, decode, tail=tail, reader={"mix": mix, "mix_samples": 26})
        del tree["volume"]
        with dtsflow.open(tree) as run:
            found.append([rows_of(run, epoch) for epoch in range(4)])
            decoded, reused = counted(run)
    assert found[0] == found[1]
    assert decoded < reused + decoded == sum(map(len, found[0]))


def test_a_part_of_a_set_is_kept_as_the_whole_is(volume: Path) -> None:
    reader = {"mode": "streaming", "subset": {"limit": 13}}
    found, counts = [], []
    for decode in ({"sdmp_factor": 2, "store_bytes": 0}, {"sdmp_factor": 2}):
        with open_run(volume, decode, reader=reader) as run:
            found.append([rows_of(run, epoch) for epoch in range(3)])
            counts.append(counted(run))
    assert found[0] == found[1]
    assert counts == [(3 * 13, 0), (2 * 13, 13)]


def test_a_lane_that_is_empty_takes_what_another_one_keeps(workdir: Path) -> None:
    path = write_block_volume(
        workdir / "few_train_lv0.dts", [[(jpeg(25, 25, seed=i), 0) for i in range(3)]]
    )
    values = {"tail": "wrap", "lanes": 4}
    assert epochs_of(path, {"sdmp_factor": 2}, 3, **values) == epochs_of(
        path, {"sdmp_factor": 2, "store_bytes": 0}, 3, **values
    )


@pytest.mark.parametrize("shuffle", ["none", "windows", "full"])
def test_every_shuffle_can_be_grouped(volume: Path, shuffle: str) -> None:
    reader = {"shuffle": shuffle}
    alone = epochs_of(volume, {}, 4, reader=reader)
    found = epochs_of(volume, {"sdmp_factor": 2}, 4, reader=reader)
    assert [by_id(rows) for rows in found] == [by_id(rows) for rows in alone]
    orders = {tuple(row[0] for row in rows.values()) for rows in found}
    assert len(orders) == (1 if shuffle == "none" else 4)


def test_a_pixel_set_is_grouped_lane_by_lane(workdir: Path, way: str) -> None:
    assert way
    path = write_small_set(workdir / "set.dts", Kind.MNIST, 21)
    po = {"operations": [op("RandomCrop", size=24), op("Normalize", preset="mnist")]}
    alone = [by_id(rows) for rows in epochs_of(path, {}, 4, po=po)]
    found = epochs_of(path, {"sdmp_factor": 2}, 4, po=po)
    assert [by_id(rows) for rows in found] == alone
    lanes = [
        {row[0] for place, row in rows.items() if place[1] < 2} for rows in found
    ]  # fmt: skip
    assert lanes[0] == lanes[1] != lanes[2] == lanes[3]
    assert list(found[0].values()) != list(found[1].values())


@pytest.mark.parametrize("on_error", ["replace", "mask"])
def test_bad_samples_are_bad_in_every_epoch(workdir: Path, on_error: str, way: str) -> None:
    assert way
    whole = jpeg(64, 64)
    late = bytearray(whole)
    start = (whole.index(b"\xff\xda") + len(whole)) // 2
    late[start : start + 2] = b"\xff\xd9"  # what lies in the upper half alone is good
    images = [(jpeg(30 + i, 30, seed=i), i % 3) for i in range(11)]
    images[3], images[7] = (b"no image", 1), (bytes(late), 2)
    path = write_block_volume(workdir / "bad_train_lv0.dts", [images[:6], images[6:]])
    found: list[tuple[list[Found], list[BadRow]]] = []
    for decode in ({"sdmp_factor": 1}, {"sdmp_factor": 3, "store_bytes": 0}, {"sdmp_factor": 3}):
        with open_run(path, {**decode, "on_error": on_error}) as run:
            found.append(([rows_of(run, epoch) for epoch in range(3)], run.bad_samples))
    assert found[1] == found[2]
    listed = [{(row.epoch, row.sample_id) for row in bad} for _, bad in found]
    assert listed[0] == listed[1]
    assert {(epoch, 3) for epoch in range(3)} <= listed[0]


CENTRE = {"operations": [op("CenterCrop", size=14), FP16]}
NONE = {"shuffle": "none"}


@pytest.mark.parametrize("mode", ["streaming", "resident"])
def test_validation_rows_are_made_once(volume: Path, mode: str, way: str) -> None:
    assert way
    values = {"po": CENTRE, "reader": {**NONE, "mode": mode}}
    expected = epochs_of(volume, {}, 1, **values)[0]
    with open_run(volume, {"cpvs": True}, **values) as run:
        for _ in range(3):
            assert rows_of(run, 0) == rows_of(run, 1) == expected
        assert counted(run) == (SAMPLES, 5 * SAMPLES)


@pytest.mark.parametrize(
    ("decode", "po"), [({"cpvs": True}, CENTRE), ({"sdmp_factor": 2}, {"operations": [CROP]})]
)
def test_what_is_kept_is_not_read_again(volume: Path, decode: Tree, po: Tree) -> None:
    values = {"po": po, "reader": {**NONE, "mode": "streaming"}}
    whole = epochs_of(volume, {**decode, "store_bytes": 0}, 2, **values)
    with open_run(volume, decode, **values) as run:
        assert rows_of(run, 0) == whole[0]
        wreck(volume, 0, 1, 2, 3)
        assert rows_of(run, 1) == whole[1]
        assert rows_of(run, 1, start_step=4) == {
            place: row for place, row in whole[1].items() if place[0] >= 4
        }


def wreck(path: Path, *blocks: int) -> None:
    for block in blocks:
        damage(path, HEADER_BYTES + block * BLOCK_BYTES, b"\xff" * 4096)


def test_of_a_window_no_block_is_read_but_those_whose_rows_are_wanting(volume: Path) -> None:
    values = {"lanes": 1, "po": CENTRE, "reader": {**NONE, "mode": "streaming"}}
    with open_run(volume, {"cpvs": True}, **values) as run:
        budget = run.plan.phases["train"].row_budget
    assert budget is not None
    some = {"cpvs": True, "store_bytes": 11 * budget.sample_bytes}  # the first two blocks
    expected = epochs_of(volume, {}, 1, **values)[0]
    with open_run(volume, some, **values) as run:
        assert rows_of(run, 0) == expected
        wreck(volume, 0, 1)
        assert rows_of(run, 1) == expected
        assert counted(run) == (2 * SAMPLES - 11, 11)


def test_validation_has_no_factor_of_training_unless_it_says_so(volume: Path) -> None:
    phases: Mapping[str, Any] = {
        "train": None,
        "val": {"po": CENTRE, "decode": {"cpvs": True}},
    }
    with open_run(volume, {"sdmp_factor": 2}, phases=phases, epochs=3) as run:
        assert len(list(run)) == 3 * 2 * 6
        assert counted(run) == (2 * SAMPLES, SAMPLES)
        assert counted(run, "val") == (SAMPLES, 2 * SAMPLES)
        entries = run.plan.memory_entries
        assert {"stored rows of train", "stored rows of val"} <= set(entries)
        text = plan_text(run.plan)
    stored = f"stored are {SAMPLES} of {SAMPLES} rows of"
    assert f"sdmp_factor 2: decoded in one epoch of 2, for all of them; {stored} 448 bytes" in text
    assert f"cpvs: rows are made once and kept; {stored} 640 bytes" in text


def test_a_resolution_may_change_between_groups_alone(volume: Path) -> None:
    def with_sizes(*points: Any) -> Tree:
        size = {"_target_": "dtsflow.po.Schedule", "points": points}
        return {"operations": [{**CROP, "size": size}, FLIP, FP16]}

    po = with_sizes([0, 8], [2, 14], [4, 10])
    alone = epochs_of(volume, {}, 6, po=po)
    found = epochs_of(volume, {"sdmp_factor": 2}, 6, po=po)
    assert [by_id(rows) for rows in found] == [by_id(rows) for rows in alone]
    with pytest.raises(PlanError, match=r"sdmp_factor=2: the rows of epoch 3 are made in epoch 2"):
        open_run(volume, {"sdmp_factor": 2}, po=with_sizes([0, 8], [3, 14]))
    val = {"operations": with_sizes([0, 8], [1, 9])["operations"][:1]}
    val["operations"][0]["_target_"] = "dtsflow.po.CenterCrop"
    values = {"po": val, "reader": NONE}
    assert epochs_of(volume, {"cpvs": True}, 3, **values) == epochs_of(volume, {}, 3, **values)


@pytest.mark.parametrize(
    ("decode", "values", "why"),
    [
        ({"sdmp_factor": 0}, {}, "sdmp_factor"),
        ({"sdmp_factor": True}, {}, "sdmp_factor"),
        ({"store_bytes": -1}, {}, "store_bytes"),
        ({"sdmp_factor": 2, "cpvs": True}, {}, "sdmp_factor=2 makes rows that differ"),
        ({"cpvs": True}, {"reader": NONE}, "RandomResizedCrop, which makes images, draws others"),
        ({"cpvs": True}, {"po": CENTRE}, "shuffle=blocks that is another one in every epoch"),
    ],
)
def test_what_cannot_be_reused_is_refused(
    volume: Path, decode: Tree, values: Tree, why: str
) -> None:
    with pytest.raises((ConfigError, PlanError), match=why):
        open_run(volume, decode, **values)


def test_a_phase_is_named_in_a_refusal(volume: Path) -> None:
    phases: Tree = {"train": None, "val": {"decode": {"cpvs": True}}}
    with pytest.raises(PlanError, match=r"^phases\.val\.decode\.cpvs=true .* RandomResizedCrop"):
        open_run(volume, {}, phases=phases)


def test_the_factor_alone_is_part_of_the_fingerprint(volume: Path) -> None:
    def fingerprint(decode: Tree) -> dict[str, str]:
        values = {"po": CENTRE, "reader": NONE}
        with open_run(volume, decode, **values) as run:
            return run.plan.fingerprint()

    plain = fingerprint({})
    assert fingerprint({"cpvs": True}) == fingerprint({"store_bytes": 7}) == plain
    assert fingerprint({"sdmp_factor": 1}) == plain
    two, three = fingerprint({"sdmp_factor": 2}), fingerprint({"sdmp_factor": 3})
    assert set(two) - set(plain) == {"sdmp_factor"}
    assert two["sdmp_factor"] != three["sdmp_factor"]


def test_auto_keeps_what_the_limit_leaves(volume: Path) -> None:
    pipeline = build(compose(values=tree_of(volume, {"sdmp_factor": 3})).values)

    def kept(limit: int) -> tuple[int, int]:
        plan = plan_run(replace(pipeline, memory=replace(pipeline.memory, limit=limit)), Rank(0, 1))
        plan.check_memory()
        return plan.kept_samples["train"], plan.memory_entries["stored rows"]

    plan = plan_run(pipeline, Rank(0, 1))
    budget = plan.phases["train"].row_budget
    assert budget is not None
    assert plan.memory_entries["stored rows"] == SAMPLES * budget.sample_bytes == budget.needed
    others = plan.total_bytes - budget.needed
    assert kept(others + 8 * budget.sample_bytes) == (6, 6 * budget.sample_bytes)
    assert kept(others) == (0, 0)
