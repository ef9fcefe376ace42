"""Sets of records through order, lanes, station, plan, arena, ranks and resume."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtsflow.arena.batch import Batch
from dtsflow.cli.plan import simulated_text
from dtsflow.config.compose import compose
from dtsflow.config.configurable import configurable
from dtsflow.consumer.consumer import PhaseSetting, Setting
from dtsflow.consumer.digest import Digest, add_sequences
from dtsflow.consumer.sheet import Sheet
from dtsflow.decode.parser import Arrays, Parse
from dtsflow.errors import ConfigError, DecodeError, MemoryPlanError, PlanError, SetError
from dtsflow.interop.copies import expect_images
from dtsflow.memory.device_plan import Budget
from dtsflow.pipeline.build import build
from dtsflow.pipeline.explain import plan_text
from dtsflow.pipeline.pipeline import Pipeline
from dtsflow.pipeline.planner import plan_run
from dtsflow.pipeline.run import Run
from dtsflow.po.chain import Chain
from dtsflow.po.records import RecordChain, check_fields
from dtsflow.ranks.group import Rank
from dtsflow.reader.order import Tail
from dtsflow.reader.records import RECORD_BYTES
from dtsflow.reader.subset import Subset
from dtsflow.report.report import ranks_report
from dtsflow.seed.draws import Draws
from dtsflow.spec import Field
from dtsflow.station.double_buffer import Station
from dtsflow.tensor.dtype import DType
from dtsflow.testing import jpeg, write_block_volume
from dtsflow.volume.datasets.config import Raw

X, Y = Field("x", (), DType.FP64), Field("y", (2, 3), DType.INT32)


@dataclass(frozen=True)
class Numbers:
    """The numbers below `count` as records, in any order or as a stream."""

    count: int = 50
    buffer: int | None = None
    streams: bool = False
    bad: tuple[int, ...] = ()
    split: str = "split(0)"
    measured: bool = False

    def records(self) -> "Listed | Stream":
        if self.measured:
            return Measured(self)
        return (Stream if self.streams else Listed)(self)


@dataclass(frozen=True)
class Counted:
    of: Numbers

    @property
    def buffer(self) -> int | None:
        return self.of.buffer

    @property
    def split(self) -> str:
        return self.of.split

    def __len__(self) -> int:
        return self.of.count

    def where(self, number: int) -> str:
        return f"the list, entry {number}"

    def digest(self) -> str:
        return str(self.of)

    def record(self, number: int) -> bytes:
        return b"bad" if number in self.of.bad else str(number).encode()


class Listed(Counted):
    def start(self) -> "Listed":
        return self

    def read(self, number: int) -> bytes:
        return self.record(number)

    def close(self) -> None: ...


class Measured(Listed):
    held_bytes = 12345

    @property
    def lengths(self) -> list[int]:
        return [2] * self.of.count


class Stream(Counted):
    def stream(self, first: int) -> Iterator[bytes]:
        yield from map(self.record, range(first, self.of.count))


@configurable
class Twice:
    """x is the number, y twice the number everywhere."""

    fields = (X, Y)

    def start(self) -> "Twice":
        return self

    def parse(self, records: Sequence[memoryview], out: Arrays) -> None:
        for row, record in enumerate(records):
            out["x"][row] = float(bytes(record))
            out["y"][row] = 2 * int(bytes(record))


@configurable
class Named(Twice):
    """The same, and its words name the field."""

    def parse(self, records: Sequence[memoryview], out: Arrays) -> None:
        try:
            super().parse(records, out)
        except ValueError as error:
            raise DecodeError(f"field x: {error}") from error


@configurable
class Jitter:
    """Adds a random number to x, and leaves y out."""

    words = 1

    def out_fields(self, fields: tuple[Field, ...]) -> tuple[Field, ...]:
        return (replace(fields[0], shape=(1,)),)

    def apply(self, records: Arrays, out: Arrays, draws: Draws) -> None:
        out["x"][:, 0] = records["x"] + draws.uniform(0)


def pipeline(loader: Any = None, *, workers: int = 3, epochs: int = 2, **changes: Any) -> Pipeline:
    """A pipeline of the shipped configuration, with these stages of one phase."""
    values = compose(["volume.path=none", "batch_size=8", "lanes=4"]).values
    made = build(values)
    phase = replace(
        made.phases["train"],
        **{"volume": loader or Numbers(), "decode": Parse(Twice()), **changes},
    )
    station = Station(poison=True)
    return replace(
        made, phases={"train": phase}, station=station, workers=workers, epochs=epochs, seed=5
    )


@dataclass
class Delivered:
    ids: list[int]
    sequence: str
    steps: int


def deliver(configured: Pipeline, ranks: int = 1, start: int = 0, epoch: int = 1) -> Delivered:
    ids: list[int] = []
    parts, steps = [], set()
    for index in range(ranks):
        digest = Digest().open(Setting(None, {"train": PhaseSetting(0)}))
        with Run.open(plan_run(configured, Rank(index, ranks))) as run:
            batches = run.epoch(epoch, start_step=start)
            steps.add(len(batches))
            for batch in batches:
                check(batch)
                digest.take(batch)
                ids += batch.sample_ids[batch.valid].tolist()
        parts.append(digest.results()["digest"]["sequence"])
    (one,) = steps
    return Delivered(sorted(ids), add_sequences(parts), one)


def check(batch: Batch) -> None:
    """Whether a batch without operations shows what its ids say."""
    assert batch.images is None
    assert batch.padded is None
    assert (batch.labels == -1).all()
    if list(batch.fields) == ["x", "y"]:
        shown = np.where(batch.valid, batch.sample_ids, 0)
        assert np.array_equal(batch.x, shown)
        assert np.array_equal(
            batch.y, np.broadcast_to(2 * shown[:, None, None], (len(batch), 2, 3))
        )


SETS = [
    Numbers(),
    Numbers(buffer=0),
    Numbers(buffer=7),
    Numbers(buffer=0, streams=True),
    Numbers(buffer=7, streams=True),
]


@pytest.mark.parametrize("loader", SETS, ids=str)
def test_workers_ranks_and_resume_change_nothing(loader: Numbers) -> None:
    whole = deliver(pipeline(loader))
    assert whole.ids == list(range(50))
    assert deliver(pipeline(loader, workers=1)) == whole
    assert deliver(pipeline(loader), ranks=4) == whole
    rest = deliver(pipeline(loader), start=3)
    assert deliver(pipeline(loader), ranks=2, start=3) == rest
    assert rest.steps == whole.steps - 3


def test_a_stream_is_delivered_as_the_same_records_read_at_random() -> None:
    stream, listed = (deliver(pipeline(Numbers(buffer=7, streams=way))) for way in (True, False))
    assert stream == listed
    kept, other = (deliver(pipeline(Numbers(buffer=buffer))) for buffer in (0, None))
    assert len({stream.sequence, kept.sequence, other.sequence}) == 3


def of_each_rank(configured: Pipeline, ranks: int, start: int = 0) -> list[dict[str, Any]]:
    """The report of each rank that is given the second epoch from a step on."""
    reports = []
    for index in range(ranks):
        plan = plan_run(configured, Rank(index, ranks))
        digest = Digest().open(Setting(None, {"train": PhaseSetting(0)}))
        with Run.open(plan) as run:
            for batch in run.epoch(1, start_step=start):
                check(batch)
                assert (len(batch), batch.first_row) == (8, 0)
                digest.take(batch)
            run.results.update(digest.results())
            reports.append(run.report())
    return reports


@pytest.mark.parametrize("loader", SETS, ids=str)
def test_each_rank_of_a_broadcast_has_all_rows_in_the_order_of_one(loader: Numbers) -> None:
    jitter = RecordChain((Jitter(),))
    whole = deliver(pipeline(loader))
    broadcast = pipeline(replace(loader, split="broadcast"))
    drawn = deliver(pipeline(loader, po=jitter)).sequence
    for ranks in (1, 3, 4):  # three cannot share four lanes
        reports = of_each_rank(broadcast, ranks)
        told = ranks_report(reports)
        assert told["digest"]["sequence"] == whole.sequence
        assert {one["digest"]["sequence"] for one in reports} == {whole.sequence}
        assert {one["steps"] for one in reports} == {whole.steps}
        assert told["images"] == told["phases"]["train"]["images"] == 50
        assert deliver(pipeline(replace(loader, split="broadcast"), po=jitter)).sequence == drawn
    rest = of_each_rank(broadcast, 2, start=3)
    assert ranks_report(rest)["digest"]["sequence"] == deliver(pipeline(loader), start=3).sequence


def test_a_broadcast_counts_its_bad_records_once_and_a_share_each_rank_s() -> None:
    for split in ("broadcast", "split(0)"):
        loader = Numbers(bad=(3, 17, 31), split=split)
        masked = pipeline(loader, decode=Parse(Twice(), on_error="mask"))
        plans = [plan_run(masked, Rank(index, 2)) for index in range(2)]
        reports = []
        for plan in plans:
            with Run.open(plan) as run:
                list(run.epoch(0))
                reports.append(run.report())
        told = ranks_report(reports)
        assert (told["bad_samples"], told["images"]) == (3, 47)
        assert told["phases"]["train"]["bad_samples"] == 3
        assert told["phases"]["train"]["split"] == split


def test_phases_that_are_shared_and_broadcast_stand_side_by_side() -> None:
    made = pipeline()
    train = made.phases["train"]
    made = replace(
        made, phases={"train": train, "val": replace(train, volume=Numbers(9, split="broadcast"))}
    )
    with Run.open(plan_run(made, Rank(1, 4))) as run:
        rows = {name: [len(batch) for batch in run.epoch(0, name)] for name in made.phases}
    assert rows == {"train": [2] * 7, "val": [8, 8]}
    with pytest.raises(PlanError, match="3 ranks cannot share 4 lanes"):
        plan_run(made, Rank(0, 3))


def test_the_plan_and_the_fingerprint_say_what_is_broadcast() -> None:
    shared = plan_run(pipeline(), Rank(1, 2))
    broadcast = plan_run(pipeline(Numbers(split="broadcast")), Rank(1, 2))
    page = plan_text(broadcast)
    assert "  split broadcast: each of any number of ranks has all 8 rows\n" in page
    assert "labels INT32[8], x FP64[8], y INT32[8x2x3] (zone)" in page
    assert "labels INT32[4], x FP64[4], y INT32[4x2x3] (zone)" in plan_text(shared)
    entries = broadcast.memory_entries["zones"], shared.memory_entries["zones"]
    alone = plan_run(pipeline(), Rank(0, 1))
    assert entries[0] == alone.memory_entries["zones"] >= entries[1]
    simulated = simulated_text(broadcast, 2)
    assert "8 on each rank, all of them (split broadcast)" in simulated
    assert "samples of a rank  50" in simulated
    own, other = alone.fingerprint(), broadcast.fingerprint()
    assert {name for name in other if own.get(name) != other[name]} == {"data", "split"}
    with pytest.raises(PlanError, match="Numbers: its records say split='both'"):
        plan_run(pipeline(Numbers(split="both")), Rank(0, 1))


def test_operations_draw_for_a_record_the_same_wherever_it_comes() -> None:
    jitter = RecordChain((Jitter(),))
    whole = deliver(pipeline(po=jitter))
    assert deliver(pipeline(po=jitter, workers=1), ranks=4) == whole
    assert deliver(pipeline(po=jitter), epoch=0).sequence != whole.sequence
    with Run.open(plan_run(pipeline(po=jitter), Rank(0, 1))) as run:
        batch = next(iter(run.epoch(0)))
        assert list(batch.fields) == ["x"]
        assert batch.x.shape == (8, 1)
        added = batch.x[:, 0] - batch.sample_ids
        assert ((added >= 0) & (added < 1)).all()
        assert len(set(added)) == 8


def test_phases_may_have_other_records_at_the_same_addresses() -> None:
    made = pipeline()
    train = made.phases["train"]
    val = replace(train, volume=Numbers(count=9, buffer=0), po=RecordChain((Jitter(),)))
    images = replace(train, batch_size=4, tail=Tail.DROP)
    made = replace(made, phases={"train": train, "val": val, "test": images})
    seen: dict[str, set[int]] = {}
    with Run.open(plan_run(made, Rank(0, 1))) as run:
        for batch in run:
            assert len(batch) == (4 if batch.phase == "test" else 8)
            address = batch.x.__array_interface__["data"][0]
            seen.setdefault(batch.phase, set()).add(address)
    assert seen["train"] == seen["test"]
    assert seen["val"] == seen["train"]  # its first field lies where that of train does


def test_the_digest_covers_every_field(tmp_path: Path) -> None:
    with Run.open(plan_run(pipeline(), Rank(0, 1))) as run:
        batch = next(iter(run.epoch(0))).compact()

    def digest() -> str:
        sink = Digest().open(Setting(tmp_path, {"train": PhaseSetting(0)}))
        sink.take(batch)
        return str(sink.results()["digest"]["samples"])

    found = [digest()]
    for field in ("x", "y"):
        batch.fields[field].reshape(len(batch), -1)[3, -1] += 1
        found.append(digest())
    assert len(set(found)) == 3


@pytest.mark.parametrize("streams", [False, True])
def test_bad_records_are_named_masked_or_replaced(streams: bool) -> None:  # noqa: FBT001  # a parameter of the test
    loader = Numbers(buffer=10, streams=streams, bad=(3, 17))
    told = r"the list, entry (3|17) \(sample_id \1\) cannot be parsed: could not convert .*b'bad'"
    with (
        pytest.raises(DecodeError, match=told),
        Run.open(plan_run(pipeline(loader), Rank(0, 1))) as run,
    ):
        list(run.epoch(0))
    masked = deliver(pipeline(loader, decode=Parse(Twice(), on_error="mask")))
    assert masked.ids == [number for number in range(50) if number not in (3, 17)]
    replaced = deliver(pipeline(loader, decode=Parse(Twice(), on_error="replace")))
    assert replaced.ids == sorted([n for n in range(50) if n not in (3, 17)] + [4, 18])
    told = r"max_errors=1 bad .* found: the list, entry (3|17) \(sample_id \1\): field x: could"
    with (
        pytest.raises(DecodeError, match=told),
        Run.open(
            plan_run(
                pipeline(loader, decode=Parse(Named(), on_error="mask", max_errors=1)), Rank(0, 1)
            )
        ) as run,
    ):
        list(run.epoch(0))
    with Run.open(
        plan_run(pipeline(loader, decode=Parse(Twice(), on_error="mask")), Rank(0, 1))
    ) as run:
        list(run.epoch(0))
    assert [row.label for row in run.bad_samples] == [None, None]


def test_where_no_record_is_good_that_is_said_of_records() -> None:
    loader = Numbers(count=3, bad=(0, 1, 2))
    told = r"is bad, so none can replace the list, entry \d \(sample_id \d\): .* Mend them at"
    with (
        pytest.raises(DecodeError, match=told),
        Run.open(
            plan_run(pipeline(loader, decode=Parse(Twice(), on_error="replace")), Rank(0, 1))
        ) as run,
    ):
        list(run.epoch(0))


def test_a_subset_of_records_is_read_alone() -> None:
    made = pipeline(Numbers(buffer=7, streams=True))
    reader = replace(made.phases["train"].reader, subset=Subset(limit=11))
    found = deliver(pipeline(Numbers(buffer=7, streams=True), reader=reader))
    assert len(found.ids) == 11
    assert deliver(pipeline(Numbers(), reader=reader)).ids == found.ids


def test_the_plan_shows_records_and_their_fields() -> None:
    text = plan_text(plan_run(pipeline(Numbers(buffer=7, streams=True)), Rank(0, 1)))
    for line in (
        "50 samples, records",
        "raw, auto: Numbers reads records, one stream for each lane",
        "shuffle windows, 4 lanes of 2 rows, through a buffer of 7 records",
        "decode    Twice",
        "-> x FP64, y INT32[2x3] (host)",
        "labels INT32[8], x FP64[8], y INT32[8x2x3] (zone)",
        "records, up to reader.window_bytes         536,870,912 bytes",
        "not planned: what a loader or a parser allocates for itself",
    ):
        assert line in text


def test_records_in_memory_are_planned_and_count_against_the_limit() -> None:
    jitter = RecordChain((Jitter(),))
    plan = plan_run(pipeline(Numbers(measured=True), po=jitter), Rank(0, 1))
    # Three workers with a record each; x and y as parsed, and x as it leaves.
    own = {"records": 3 * (2 * 2 + RECORD_BYTES), "scratch of records": 3 * (8 + 24 + 8)}
    expected = {**own, "listed by the loader": 12345}
    assert plan.phases["train"].chunk_rows == 1
    assert plan.memory_entries.items() >= expected.items()
    assert re.search(r"  listed by the loader +12,345 bytes  ", plan_text(plan))
    for rank in (Rank(0, 1), Rank(0, 2, local_size=2)):  # both of a node count
        needed = plan_run(plan.pipeline, rank).total_bytes * rank.local_size
        plan_run(replace(plan.pipeline, memory=Budget(limit=needed)), rank).check_memory()
        with pytest.raises(MemoryPlanError, match="The plan needs"):
            plan_run(replace(plan.pipeline, memory=Budget(limit=needed - 1)), rank).check_memory()


def test_records_of_unknown_length_have_the_window_s_bytes() -> None:
    name = "records, up to reader.window_bytes"
    made = pipeline(Numbers(buffer=7, streams=True))
    reader = replace(made.phases["train"].reader, window_bytes=1200)
    made = pipeline(Numbers(buffer=7, streams=True), reader=reader)
    assert plan_run(made, Rank(0, 1)).memory_entries[name] == 1200
    assert plan_run(made, Rank(1, 4)).memory_entries[name] == 300
    with (
        pytest.raises(MemoryPlanError, match=r"and reader\.window_bytes leaves 1,200 to it"),
        Run.open(plan_run(made, Rank(0, 1))) as run,
    ):
        list(run.epoch(0))
    val = replace(made.phases["train"], volume=Numbers(9))
    made = replace(made, phases={"train": made.phases["train"], "val": val})
    assert plan_run(made, Rank(0, 1)).memory_entries[name] == 2400


def test_what_counts_is_in_the_fingerprint() -> None:
    def fingerprint(*args: Any, **changes: Any) -> dict[str, str]:
        return plan_run(pipeline(*args, **changes), Rank(0, 1)).fingerprint()

    own = fingerprint()
    assert fingerprint(workers=1) == own
    for other, item in (
        (fingerprint(Numbers(bad=(1,))), "data"),
        (fingerprint(po=RecordChain((Jitter(),))), "po"),
        (fingerprint(decode=Parse(Twice(), on_error="mask")), "decode"),
    ):
        assert [name for name in own if own[name] != other[name]] == [item]


def test_stages_for_images_and_for_records_are_told_apart(tmp_path: Path) -> None:
    made = build(compose(["volume.path=none"]).values)
    images = made.phases["train"]
    with pytest.raises(PlanError, match=r"Numbers gives records, and decode=Auto decodes images"):
        plan_run(pipeline(decode=images.decode), Rank(0, 1))
    flip = build(compose(["volume.path=none", "po=imagenet_val"]).values).phases["train"].po
    with pytest.raises(PlanError, match=r"po\.operations: Numbers gives records, and these"):
        plan_run(pipeline(po=flip), Rank(0, 1))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "0.jpg").write_bytes(jpeg())
    folder = Raw(str(tmp_path))
    for changes, name in (({"decode": Parse(Twice())}, "decode"), ({"po": RecordChain()}, "po")):
        kept: dict[str, Any] = {"decode": images.decode, "po": Chain(), **changes}
        with pytest.raises(PlanError, match=f"holds images, and {name} is for records"):
            plan_run(pipeline(folder, **kept), Rank(0, 1))
    with pytest.raises(SetError, match="Numbers found no record"):
        plan_run(pipeline(Numbers(count=0)), Rank(0, 1))


def test_what_needs_images_refuses_records(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="consumer=sheet draws images"):
        Sheet().open(Setting(tmp_path, {"train": PhaseSetting(0, pixels=None)}))
    with Run.open(plan_run(pipeline(), Rank(0, 1))) as run:
        batch = next(iter(run.epoch(0)))
        with pytest.raises(ConfigError, match=r"are records with the fields x, y"):
            expect_images(batch)
        with pytest.raises(AttributeError, match="Its further fields: x, y"):
            batch.z  # noqa: B018  # that it raises is the test


def test_a_windows_shuffle_keeps_the_blocks_of_a_volume_in_their_order(tmp_path: Path) -> None:
    blocks = [[(jpeg(16, 16, seed=4 * b + n), 0) for n in range(4)] for b in range(4)]
    volume = write_block_volume(tmp_path / "set.dts", blocks)
    words = [f"volume.path={volume}", "batch_size=4", "lanes=1", "reader.window_bytes=1"]
    chain = {"operations": [{"_target_": "dtsflow.po.CenterCrop", "size": 8}]}
    values = compose([*words, "reader.shuffle=windows"], values={"po": chain}).values
    with Run.open(plan_run(build(values), Rank(0, 1))) as run:
        ids = [batch.sample_ids.tolist() for batch in run.epoch(0)]
    assert [sorted(own) for own in ids] == [list(range(4 * b, 4 * b + 4)) for b in range(4)]
    assert ids != [sorted(own) for own in ids]


def test_no_field_may_hide_what_a_batch_has() -> None:
    own = [name for name in dir(Batch) if not name.startswith("_")]
    for name in own:
        with pytest.raises(PlanError, match="a batch has something else of that name"):
            check_fields((replace(X, name=name),))
