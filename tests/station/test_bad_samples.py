"""Bad samples over whole epochs: what is delivered in their place, and what is told."""

import io
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

import dtsflow
from dtsflow.errors import BlockError, ClosedError, DecodeError
from dtsflow.pipeline.run import Run
from dtsflow.reader import random_access
from dtsflow.station.bad_samples import RowWriter
from dtsflow.station.native_engine import NativeEngine
from dtsflow.station.reference_engine import ReferenceEngine
from dtsflow.testing import damage, jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import BLOCK_BYTES, Kind

COUNTS = (23, 0, 31, 20, 26)
SAMPLES = sum(COUNTS)
STARTS = np.cumsum((0, *COUNTS[:-1])).tolist()
BLOCK_OF = np.repeat(np.arange(len(COUNTS)), COUNTS).tolist()
# The last of a block, two neighbours, and all of the fourth block.
BAD = (4, 22, 40, 41, 53, *range(54, 74), 99)
CHAIN = {
    "operations": [
        {"_target_": "dtsflow.po.RandomResizedCrop", "size": 8},
        {"_target_": "dtsflow.po.RandomHorizontalFlip"},
        {"_target_": "dtsflow.po.Normalize", "preset": "imagenet", "dtype": "FP16"},
    ]
}


class Row(NamedTuple):
    """One delivered row; its number counts through the epoch."""

    number: int
    sample_id: int
    label: int
    valid: bool
    pixels: bytes


def png(seed: int) -> bytes:
    noise = np.random.default_rng(seed).integers(0, 256, (30, 20, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, "PNG")
    return file.getvalue()


GOOD = [png(i) if i % 11 == 0 else jpeg(24 + i % 7, 32 - i % 5, seed=i) for i in range(SAMPLES)]


def spoilt(sample_id: int) -> bytes:
    """A cut, a zeroed or a text sample, or one that only decoding finds out."""
    kinds = (jpeg(seed=sample_id)[:-30], bytes(500), b"<html>no image</html>", png(1)[:-200])
    return kinds[sample_id % 4]


def blocks_of(images: Sequence[bytes]) -> list[list[tuple[bytes, int]]]:
    labelled = [(data, number % 9) for number, data in enumerate(images)]
    return [labelled[start : start + count] for start, count in zip(STARTS, COUNTS, strict=True)]


def with_bad(replaced: dict[int, bytes] | None = None) -> list[bytes]:
    """All images, the bad ones spoilt, or else with other bytes."""
    own = {i: spoilt(i) for i in BAD} if replaced is None else replaced
    return [own.get(i, data) for i, data in enumerate(GOOD)]


def next_good(sample_id: int, bad: Sequence[int] = BAD) -> int:
    """The substitute, by the words of the definition."""
    block = BLOCK_OF[sample_id]
    start, count = STARTS[block], COUNTS[block]
    places = [start + (sample_id - start + k) % count for k in range(1, count)]
    for after in range(1, len(COUNTS)):
        other = (block + after) % len(COUNTS)
        places += range(STARTS[other], STARTS[other] + COUNTS[other])
    return int(next(place for place in places if place not in bad))


def open_run(path: Path, on_error: str, **values: Any) -> Run:
    tree: dict[str, Any] = {
        "volume": {"path": str(path)},
        "decode": {"on_error": on_error},
        "station": {"timeout_s": 20, "poison": True},
        "po": CHAIN,
        "batch_size": 12,
        "lanes": 3,
        "workers": 2,
        "seed": 3,
    }
    return dtsflow.open({**tree, **values})


def rows_of(run: Run, epoch: int = 0) -> list[Row]:
    found: list[Row] = []
    for batch in run.epoch(epoch):
        for i in range(len(batch.valid)):
            number = batch.step * 12 + batch.first_row + i
            pixels = batch.padded[i].tobytes()
            told = int(batch.sample_ids[i]), int(batch.labels[i]), bool(batch.valid[i])
            found.append(Row(number, *told, pixels))
    return found


def delivered(path: Path, on_error: str, **values: Any) -> list[Row]:
    with open_run(path, on_error, **values) as run:
        return rows_of(run)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """What an epoch delivers of the set before anything was spoilt."""
    folder = tmp_path_factory.mktemp("clean")
    return delivered(write_block_volume(folder / "x.dts", blocks_of(GOOD)), "raise")


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """The same of a set where each bad sample has the bytes of its substitute."""
    images = with_bad({i: GOOD[next_good(i)] for i in BAD})
    folder = tmp_path_factory.mktemp("twin")
    return delivered(write_block_volume(folder / "x.dts", blocks_of(images)), "raise")


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    return write_block_volume(tmp_path / "damaged.dts", blocks_of(with_bad()))


def replaced(rows: Sequence[Row]) -> list[Row]:
    """Rows of the twin with the ids and labels that substitutes bring along."""
    ids = [next_good(row.sample_id) if row.sample_id in BAD else row.sample_id for row in rows]
    return [
        row._replace(sample_id=i, label=i % 9) if i != row.sample_id else row
        for row, i in zip(rows, ids, strict=True)
    ]


def masked(rows: Sequence[Row], bad: Sequence[int] = BAD) -> list[Row]:
    """Rows of the clean set without the bad samples."""
    return [
        row._replace(sample_id=-1, label=-1, valid=False, pixels=bytes(len(row.pixels)))
        if row.sample_id in bad
        else row
        for row in rows
    ]


def test_replace_puts_the_next_good_sample_there_drawn_for_as_the_bad_one(
    damaged: Path, clean: list[Row], twin: list[Row]
) -> None:
    rows = delivered(damaged, "replace")
    assert rows == replaced(twin)
    good = [row for row in clean if row.sample_id not in BAD]
    assert [rows[row.number] for row in good] == good
    assert len(rows) == len(clean)


def test_mask_leaves_the_row_of_a_bad_sample_empty_and_all_others_alone(
    damaged: Path, clean: list[Row]
) -> None:
    assert delivered(damaged, "mask") == masked(clean)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("chunk_rows", [1, 5, 12])
def test_neither_workers_nor_chunks_change_what_is_delivered(
    damaged: Path,
    clean: list[Row],
    twin: list[Row],
    workers: int,
    chunk_rows: int,
) -> None:
    for on_error, expected in (("replace", replaced(twin)), ("mask", masked(clean))):
        run = open_run(damaged, on_error, workers=workers)
        run.close()
        phase = replace(run.plan.phases["train"], chunk_rows=chunk_rows)
        with Run.open(replace(run.plan, phases={"train": phase})) as run:
            assert rows_of(run) == expected


@pytest.mark.parametrize("way", ["native", "reference", "pillow"])
@pytest.mark.parametrize("mode", ["resident", "streaming"])
def test_neither_the_path_nor_the_reader_changes_what_is_delivered(
    damaged: Path,
    clean: list[Row],
    twin: list[Row],
    way: str,
    mode: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if way == "reference":
        monkeypatch.setattr("dtsflow.pipeline.phase.load", lambda: None)
        monkeypatch.setattr("dtsflow.pipeline.phase.warn_absent", lambda: None)
    for on_error, expected in (("replace", replaced(twin)), ("mask", masked(clean))):
        values: dict[str, Any] = {"reader": {"mode": mode}, "decode": {"on_error": on_error}}
        if way == "pillow":
            values["decode"] |= {"_target_": "dtsflow.decode.Pillow"}
        with open_run(damaged, on_error, **values) as run:
            engine = run.plan.phases["train"].engine()
            assert isinstance(engine, NativeEngine | ReferenceEngine)
            assert isinstance(engine, ReferenceEngine) or way == "native"
            assert rows_of(run) == expected


def test_every_bad_row_is_listed_once_for_each_delivery(damaged: Path, workdir: Path) -> None:
    with open_run(damaged, "replace", name="mine") as run:
        expected = []
        for epoch in (0, 1):
            order = (
                run.plan.phases["train"]
                .order.epoch(epoch)
                .rows(0, run.plan.phases["train"].order.steps, run.plan.phases["train"].lanes)
            )
            for number, sample_id in enumerate(order.ids.tolist()):
                if sample_id in BAD:
                    step, row = divmod(number, 12)
                    expected.append((epoch, step, row, sample_id, next_good(sample_id)))
            rows_of(run, epoch)
        assert run.counters.bad_samples == len(expected) == 2 * len(BAD)
        assert run.report()["bad_samples"] == len(expected)
        told = [(b.epoch, b.step, b.row, b.sample_id, b.substitute) for b in run.bad_samples]
        assert told == expected  # of a batch by row, whichever worker was first
    lines = (workdir / "runs/mine/bad_samples.jsonl").read_text().splitlines()
    listed = [json.loads(line) for line in lines]
    keys = ("epoch", "step", "row", "sample_id", "substitute")
    assert sorted(tuple(line[key] for key in keys) for line in listed) == expected
    one = next(line for line in listed if line["sample_id"] == 22)
    assert one["phase"] == "train"
    assert one["label"] == 22 % 9
    assert one["where"] == "damaged.dts block 0 sample 22"
    assert "no image" in one["reason"]
    assert one["action"] == "replace"


def test_a_masked_row_is_listed_without_a_substitute(damaged: Path, workdir: Path) -> None:
    with open_run(damaged, "mask", name="mine") as run:
        rows_of(run)
    lines = (workdir / "runs/mine/bad_samples.jsonl").read_text().splitlines()
    listed = [json.loads(line) for line in lines]
    assert sorted(line["sample_id"] for line in listed) == list(BAD)
    assert {(line["action"], line["substitute"]) for line in listed} == {("mask", None)}


def test_only_batches_that_were_handed_out_are_listed(damaged: Path, workdir: Path) -> None:
    with open_run(damaged, "mask", name="mine") as run:
        batches = iter(run.epoch(0))
        missing = np.flatnonzero(~next(batches).valid).tolist()
        assert [bad.row for bad in run.bad_samples] == missing
        assert {bad.step for bad in run.bad_samples} == {0}
    lines = (workdir / "runs/mine/bad_samples.jsonl").read_text().splitlines()
    assert len(lines) == len(missing) > 0


def test_a_healthy_set_leaves_no_list_and_no_word(
    tmp_path: Path, workdir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_block_volume(tmp_path / "x.dts", blocks_of(GOOD))
    with open_run(path, "replace", name="mine") as run:
        rows_of(run)
        assert run.counters.bad_samples == 0
        assert run.bad_samples == []
    assert not (workdir / "runs/mine/bad_samples.jsonl").exists()
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


def test_one_warning_names_the_first_bad_sample(
    damaged: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_run(damaged, "mask") as run:
        rows_of(run)
        first = run.bad_samples[0]
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert first.where in warnings[0]
    assert first.reason in warnings[0]
    assert "decode.on_error=mask" in warnings[0]


def test_more_bad_samples_than_allowed_end_the_run_before_their_batch(damaged: Path) -> None:
    with open_run(damaged, "mask") as run:
        rows_of(run)
        all_bad = run.bad_samples
    limit = next(n for n, bad in enumerate(all_bad) if bad.step == 3)
    decode = {"on_error": "mask", "max_errors": limit}
    with open_run(damaged, "mask", decode=decode) as run:
        batches = iter(run.epoch(0))
        steps = [next(batches).step for _ in range(3)]
        over = all_bad[limit]
        with pytest.raises(DecodeError, match=f"max_errors={limit} .*sample_id {over.sample_id}"):
            next(batches)
        assert steps == [0, 1, 2]
        assert run.bad_samples == all_bad[:limit]
    with open_run(damaged, "mask", decode={"on_error": "mask", "max_errors": len(BAD)}) as run:
        assert len(rows_of(run)) == 108


def test_how_many_may_be_bad_is_no_part_of_the_plan_and_what_becomes_of_them_is(
    damaged: Path,
) -> None:
    plans = []
    for decode in (
        {"on_error": "mask"},
        {"on_error": "mask", "max_errors": 7},
        {"on_error": "replace"},
    ):
        with open_run(damaged, "", decode=decode) as run:
            plans.append((run.plan.digest(), run.plan.fingerprint()))
    assert plans[0] == plans[1]
    assert plans[0][0] != plans[2][0]
    assert plans[0][1] != plans[2][1]


@pytest.mark.parametrize("on_error", ["replace", "mask"])
@pytest.mark.parametrize("mode", ["resident", "streaming"])
def test_all_of_a_damaged_block_is_bad_and_the_block_is_read_once_more_at_most(
    tmp_path: Path,
    write_indexed: Any,
    on_error: str,
    mode: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last block is damaged, so its substitutes come from the first."""
    lost = range(STARTS[4], SAMPLES)
    twin = [*GOOD[: STARTS[4]], *(GOOD[0] for _ in lost)]
    expected = delivered(write_block_volume(tmp_path / "twin.dts", blocks_of(twin)), "raise")
    path = write_indexed(tmp_path / "x.dts", blocks_of(GOOD))
    damage(path, 6 * BLOCK_BYTES - 1, b"\x01")
    read: list[int] = []
    whole = random_access.read_block

    def reading(volumes: Any, block: int, **stop: Any) -> Any:
        read.append(block)
        return whole(volumes, block, **stop)

    monkeypatch.setattr(random_access, "read_block", reading)
    with open_run(path, on_error, reader={"mode": mode}) as run:
        rows = rows_of(run)
        told = run.bad_samples
    if on_error == "replace":
        assert rows == [
            row._replace(sample_id=0, label=0) if row.sample_id in lost else row for row in expected
        ]
        assert read == [0]
    else:
        assert rows == masked(expected, lost)
        assert read == []
    assert sorted(bad.sample_id for bad in told) == list(lost)
    assert {bad.label for bad in told} == {None}
    assert all("block 4 of" in bad.reason and "CRC-32" in bad.reason for bad in told)


def test_a_damaged_block_beside_a_damaged_block_gives_no_substitute(
    tmp_path: Path, write_indexed: Any
) -> None:
    path = write_indexed(tmp_path / "x.dts", blocks_of(GOOD))
    for block in (2, 3):
        damage(path, (2 + block) * BLOCK_BYTES - 1, b"\x01")
    with open_run(path, "replace") as run:
        ids = sorted(row.sample_id for row in rows_of(run) if row.valid)
        assert {bad.substitute for bad in run.bad_samples} == {STARTS[4]}
    assert ids == sorted([*range(23), *range(74, SAMPLES), *(51 * [74])])


def test_raise_ends_the_run_at_a_damaged_block_by_the_words_of_the_reader(
    tmp_path: Path, write_indexed: Any
) -> None:
    path = write_indexed(tmp_path / "x.dts", blocks_of(GOOD))
    damage(path, 4 * BLOCK_BYTES - 1, b"\x01")
    with (
        open_run(path, "raise", reader={"shuffle": "none"}, lanes=1) as run,
        pytest.raises(BlockError, match=r"block 2 of .*x\.dts is damaged: it has the CRC-32"),
    ):
        rows_of(run)


@pytest.mark.parametrize("on_error", ["raise", "replace", "mask"])
def test_of_a_damaged_pixel_set_nothing_is_left(tmp_path: Path, on_error: str) -> None:
    path = write_small_set(tmp_path / "mnist_test.dts", Kind.MNIST, 30)
    damage(path, 3000, b"\x00\x01\x02")
    with (
        open_run(path, on_error, po={"operations": []}) as run,
        pytest.raises(BlockError, match="is damaged: its labels and pixels have the CRC-32"),
    ):
        rows_of(run)


def test_the_first_bad_row_of_a_chunk_is_the_one_that_ends_the_run(damaged: Path) -> None:
    message = r"damaged\.dts block 0 sample 4 \(label 4, sample_id 4\) cannot be decoded: "
    with (
        open_run(
            damaged, "raise", reader={"shuffle": "none"}, lanes=1, batch_size=100, workers=1
        ) as run,
        pytest.raises(DecodeError, match=message) as caught,
    ):
        rows_of(run)
    assert "decode.on_error=replace or mask" in str(caught.value)


def test_a_set_of_bad_samples_has_no_substitute(tmp_path: Path) -> None:
    path = write_block_volume(tmp_path / "x.dts", blocks_of([spoilt(i) for i in range(SAMPLES)]))
    with (
        open_run(path, "replace") as run,
        pytest.raises(DecodeError, match=r"every sample of the data set is bad, so none can"),
    ):
        rows_of(run)
    with open_run(path, "mask") as run:
        assert not any(row.valid for row in rows_of(run))


def test_a_repeated_row_is_replaced_like_the_row_it_repeats(damaged: Path) -> None:
    with open_run(damaged, "replace", tail="wrap", batch_size=12) as run:
        rows = rows_of(run)
        order = (
            run.plan.phases["train"]
            .order.epoch(0)
            .rows(0, run.plan.phases["train"].order.steps, run.plan.phases["train"].lanes)
        )
    seen: dict[int, Row] = {}
    for row, wanted in zip(rows, order.ids.tolist(), strict=True):
        first = seen.setdefault(wanted, row)
        assert row[1:] == first[1:]
    assert len(rows) > len(seen) == SAMPLES
    assert all(row.valid for row in rows)


def test_a_jpeg_that_breaks_off_in_its_pixels_is_replaced_on_both_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = jpeg(64, 64)
    broken = bytearray(whole)
    middle = whole.index(b"\xff\xda") + (len(whole) - whole.index(b"\xff\xda")) // 2
    broken[middle : middle + 2] = b"\xff\xd9"
    images = [(whole, 0), (bytes(broken), 1), (jpeg(40, 50), 2)]
    path = write_block_volume(tmp_path / "x.dts", [images])
    chain = {"operations": [{"_target_": "dtsflow.po.Resize", "size": [12, 12], "fit": "exact"}]}
    found = []  # the whole image counts, on either path
    for native in (True, False):
        if not native:
            monkeypatch.setattr("dtsflow.pipeline.phase.load", lambda: None)
        found.append(delivered(path, "replace", po=chain, lanes=1))
    assert found[0] == found[1]
    assert sorted(row.sample_id for row in found[0]) == [-1] * 9 + [0, 2, 2]


def test_ending_a_pass_ends_a_long_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_block_volume(tmp_path / "x.dts", blocks_of([spoilt(i) for i in range(SAMPLES)]))
    ended: list[BaseException] = []
    fill = RowWriter.fill

    def ending(self: RowWriter, *arguments: Any) -> None:
        self._stop = lambda: True
        try:
            fill(self, *arguments)
        except BaseException as error:
            ended.append(error)
            raise

    monkeypatch.setattr(RowWriter, "fill", ending)
    with open_run(path, "replace", workers=1) as run, pytest.raises(ClosedError):
        rows_of(run)
    assert isinstance(ended[0], ClosedError)
