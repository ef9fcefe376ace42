"""Images of a list with further columns, through decode, chains, ranks and resume."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtsflow.arena import device
from dtsflow.arena.batch import Batch
from dtsflow.cli.run import _setting
from dtsflow.config.compose import compose
from dtsflow.consumer.consumer import PhaseSetting, Setting
from dtsflow.consumer.digest import Digest, add_sequences
from dtsflow.decode.auto import Auto
from dtsflow.decode.pillow import Pillow
from dtsflow.errors import DecodeError, PlanError
from dtsflow.pipeline.build import build
from dtsflow.pipeline.explain import plan_text
from dtsflow.pipeline.pipeline import Pipeline
from dtsflow.pipeline.planner import plan_run
from dtsflow.pipeline.run import Run
from dtsflow.po.chain import Chain
from dtsflow.po.crop import CenterCrop, RandomResizedCrop
from dtsflow.po.flip import RandomHorizontalFlip
from dtsflow.po.mixup import Mixup
from dtsflow.po.normalize import Normalize
from dtsflow.ranks.group import Rank
from dtsflow.reader.mix import MixedSource
from dtsflow.reader.reader import Reader
from dtsflow.reader.subset import Subset
from dtsflow.spec import Field
from dtsflow.station.double_buffer import Station
from dtsflow.tensor.dtype import DType
from dtsflow.testing import jpeg
from dtsflow.volume import Choice, Packing, pack
from dtsflow.volume.data_set import Column
from dtsflow.volume.datasets.image_list import ImageList

COUNT = 29
NUMBER = Field("number", (), DType.INT64)
BOX = Field("box", (4,), DType.FP32)


@dataclass(frozen=True)
class Listed:
    """The images 00.jpg, … of a folder, last one first; satisfies ImageLoader."""

    folder: Path
    fields: tuple[Field, ...] = (NUMBER, BOX)
    shift: int = 0

    def list_images(self) -> ImageList:
        numbers = np.arange(COUNT)
        return ImageList(
            root=self.folder,
            names=[f"{COUNT - 1 - number:02d}.jpg" for number in numbers],
            labels=[int(number) % 5 for number in numbers],
            classes=tuple("abcde"),
            where=lambda number: f"the list, entry {number}",
            columns=tuple(Column(one, self._values(one, numbers)) for one in self.fields),
        )

    def _values(self, field: Field, numbers: Any) -> Any:
        shown = 1000 + numbers + self.shift
        return np.broadcast_to(shown.reshape(-1, *(1 for _ in field.shape)), (COUNT, *field.shape))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("listed")
    for number in range(COUNT):
        (root / f"{number:02d}.jpg").write_bytes(jpeg(20 + number % 9, 24, seed=number))
    return root


CHAIN = Chain((RandomResizedCrop(size=12), RandomHorizontalFlip()))


def pipeline(loader: Any, *, workers: int = 3, **changes: Any) -> Pipeline:
    """A pipeline of the shipped configuration, with these stages of one phase."""
    made = build(compose(["volume.path=none", "batch_size=8", "lanes=4"]).values)
    given = {"volume": loader, "po": CHAIN, **changes}
    phases = {"train": replace(made.phases["train"], **given)}
    station = Station(poison=True)
    return replace(made, phases=phases, station=station, workers=workers, epochs=2, seed=5)


@dataclass
class Delivered:
    ids: list[int]
    sequence: str
    steps: int


def check(batch: Batch, names: tuple[str, ...] = ("number", "box")) -> None:
    """Whether the fields of each row are those of its sample."""
    shown = np.where(batch.valid, 1000 + batch.sample_ids, 0)
    assert tuple(batch.fields) == names
    assert batch.number.dtype == np.int64
    assert np.array_equal(batch.number, shown)
    assert batch.box.dtype == np.float32
    assert np.array_equal(batch.box, np.repeat(shown[:, None], 4, axis=1))
    assert np.array_equal(batch.labels, np.where(batch.valid, batch.sample_ids % 5, -1))


def deliver(configured: Pipeline, ranks: int = 1, start: int = 0) -> Delivered:
    ids: list[int] = []
    parts, steps = [], set()
    for index in range(ranks):
        digest = Digest().open(Setting(None, {"train": PhaseSetting(0)}))
        with Run.open(plan_run(configured, Rank(index, ranks))) as run:
            batches = run.epoch(1, start_step=start)
            steps.add(len(batches))
            for batch in batches:
                check(batch)
                digest.take(batch)
                ids += batch.sample_ids[batch.valid].tolist()
        parts.append(digest.results()["digest"]["sequence"])
    (one,) = steps
    return Delivered(sorted(ids), add_sequences(parts), one)


def test_workers_ranks_resume_and_decoder_change_nothing(folder: Path) -> None:
    whole = deliver(pipeline(Listed(folder)))
    assert whole.ids == list(range(COUNT))
    assert deliver(pipeline(Listed(folder), workers=1), ranks=4) == whole
    assert deliver(pipeline(Listed(folder), decode=Pillow())).ids == whole.ids
    rest = deliver(pipeline(Listed(folder)), start=2)
    assert deliver(pipeline(Listed(folder)), ranks=2, start=2) == rest
    assert rest.steps == whole.steps - 2


def test_images_are_those_of_the_same_list_without_columns(folder: Path) -> None:
    def images(fields: tuple[Field, ...]) -> dict[int, bytes]:
        with Run.open(plan_run(pipeline(Listed(folder, fields)), Rank(0, 1))) as run:
            return {
                int(batch.sample_ids[row]): batch.images[row].tobytes()
                for batch in run.epoch(0)
                for row in np.flatnonzero(batch.valid)
            }

    found = images((NUMBER, BOX))
    assert found == images(())
    assert len(found) == COUNT


def test_views_and_mixed_batches_have_the_columns_of_their_rows(folder: Path) -> None:
    po = Chain(CHAIN.operations, views={"small": (CenterCrop(size=8),)}, batch=(Mixup(alpha=1.0),))
    with Run.open(plan_run(pipeline(Listed(folder), po=po), Rank(0, 1))) as run:
        for batch in run.epoch(0):
            assert batch.small.shape == (8, 8, 8, 3)
            check(batch, ("small", "soft_labels", "number", "box"))


@pytest.mark.usefixtures("has_device")
@pytest.mark.parametrize("normalize_on", ["host", "device"])
def test_on_a_device_they_are_the_same(folder: Path, normalize_on: str) -> None:
    po = Chain((*CHAIN.operations, Normalize(preset="imagenet", dtype=DType.FP16)))
    arena = device.Device(normalize_on=normalize_on)  # type: ignore[arg-type]  # one of two
    configured = pipeline(Listed(folder), po=po)

    def images(of: Pipeline) -> list[bytes]:
        found = []
        with Run.open(plan_run(of, Rank(0, 1))) as run:
            for batch in (batch.on_host() for batch in run.epoch(0)):
                check(batch)
                found.append(batch.images.tobytes())
        return found

    assert images(replace(configured, arena=arena)) == images(configured)


def test_a_subset_keeps_the_rows_of_its_samples(folder: Path) -> None:
    reader = Reader(subset=Subset(classes=("b", "d")))
    with Run.open(plan_run(pipeline(Listed(folder), reader=reader), Rank(0, 1))) as run:
        batches = [batch.compact() for batch in run.epoch(0)]
    found = np.concatenate([batch.number for batch in batches])
    assert sorted(found.tolist()) == [1000 + n for n in range(COUNT) if n % 5 in (1, 3)]
    for batch in batches:
        assert np.array_equal(batch.box[:, 3], batch.number)


@pytest.fixture
def spoilt(folder: Path, tmp_path: Path) -> Path:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / f"{COUNT - 1 - 7:02d}.jpg").write_bytes(b"no image")  # sample 7
    return tmp_path


def test_a_bad_image_leaves_zeros_or_the_columns_of_its_substitute(spoilt: Path) -> None:
    def numbers(on_error: str) -> list[int]:
        decode = Pillow(on_error=on_error)  # type: ignore[arg-type]  # the test's own words
        reader = Reader(shuffle="none")  # type: ignore[arg-type]  # as YAML says it
        configured = pipeline(Listed(spoilt), decode=decode, reader=reader, lanes=1)
        with Run.open(plan_run(configured, Rank(0, 1))) as run:
            batch = next(iter(run.epoch(0)))
            assert np.array_equal(batch.box[:, 0], batch.number)
            return [int(number) for number in batch.number]

    good = [1000, 1001, 1002, 1003, 1004, 1005, 1006]
    assert numbers("mask") == [*good, 0]
    assert numbers("replace") == [*good, 1008]
    with pytest.raises(DecodeError, match=r"21\.jpg \(label 2, sample_id 7\) cannot be decoded"):
        numbers("raise")


def test_changed_values_are_another_data_set(folder: Path) -> None:
    def data(**words: Any) -> str:
        plan = plan_run(pipeline(Listed(folder, **words)), Rank(0, 1))
        return plan.phases["train"].volumes.fingerprint()

    found = {data(), data(shift=1), data(fields=(NUMBER,)), data(fields=())}
    assert len(found) == 4
    assert data() == data()


@pytest.mark.parametrize(
    ("field", "told"),
    [
        (Field("images", (), DType.FP32), "'images': a batch has something else of that name"),
        (Field("a b", (), DType.FP32), "'a b': its name must be a word"),
        (Field("small", (), DType.FP32), "'small': a view or a batch operation makes a field"),
        (Field("soft_labels", (), DType.FP32), "'soft_labels': a view or a batch operation"),
    ],
)
def test_a_column_that_no_batch_can_have_is_named(folder: Path, field: Field, told: str) -> None:
    po = Chain(CHAIN.operations, views={"small": (CenterCrop(size=8),)})
    with pytest.raises(PlanError, match=f"field {told}"):
        plan_run(pipeline(Listed(folder, (field,)), po=po), Rank(0, 1))


@pytest.mark.parametrize("reuse", [{"sdmp_factor": 2}, {"cpvs": True}])
def test_rows_that_are_reused_have_their_columns(folder: Path, reuse: dict[str, Any]) -> None:
    po = Chain((CenterCrop(size=12),))
    reader = Reader(shuffle="none")  # type: ignore[arg-type]  # as YAML says it
    configured = pipeline(Listed(folder), decode=Auto(**reuse), po=po, reader=reader)
    with Run.open(plan_run(configured, Rank(0, 1))) as run:
        for epoch in range(2):
            for batch in run.epoch(epoch):
                check(batch)


def test_the_plan_shows_them_and_a_consumer_is_told(folder: Path) -> None:
    plan = plan_run(pipeline(Listed(folder)), Rank(0, 1))
    shown = plan_text(plan)
    assert "image UINT8[?x?x3], label INT32, number INT64, box FP32[4] (host)" in shown
    assert "number INT64[8], box FP32[8x4] (zone)" in shown
    with Run.open(plan) as run:
        assert _setting(run).phases["train"].fields == (NUMBER, BOX)


def test_phases_may_have_other_columns_at_the_same_addresses(folder: Path) -> None:
    made = pipeline(Listed(folder))
    val = replace(made.phases["train"], volume=Listed(folder, (BOX,)), po=CHAIN)
    made = replace(made, phases={**made.phases, "val": val})
    with Run.open(plan_run(made, Rank(0, 1))) as run:
        places: dict[str, set[int]] = {"train": set(), "val": set()}
        for phase, found in places.items():
            for batch in run.epoch(0, phase):
                assert ("number" in batch.fields) == (phase == "train")
                found.add(batch.box.ctypes.data)
    assert places["train"] == places["val"]
    assert len(places["train"]) == 2


def test_in_the_order_of_a_packed_volume_each_keeps_its_row(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "images").symlink_to(folder, target_is_directory=True)
    (tmp_path / "labels.csv").write_text(
        "".join(f"{number:02d}.jpg,a\n" for number in range(COUNT) if number != 4)
    )
    pack(
        tmp_path / "images",
        tmp_path / "packed",
        Packing(split="train", choice=Choice(labels=tmp_path / "labels.csv")),
    )
    reader = Reader(order_from=str(tmp_path / "packed"))
    plan = plan_run(pipeline(Listed(folder), reader=reader), Rank(0, 1))
    volumes = plan.phases["train"].volumes
    (number, _) = volumes.columns
    assert len(number) == COUNT - 1
    for sample_id, value in enumerate(number.values.tolist()):
        assert volumes.where(sample_id).endswith(f"{COUNT - 1 - (value - 1000):02d}.jpg")


def test_lists_can_be_mixed_if_their_columns_are_the_same(folder: Path) -> None:
    def configured(*fields: tuple[Field, ...]) -> Pipeline:
        mix = {
            f"list{number}": MixedSource(volume=Listed(folder, own, shift=number * COUNT))
            for number, own in enumerate(fields)
        }
        return pipeline(None, reader=Reader(mix=mix))

    found = []
    with Run.open(plan_run(configured((NUMBER,), (NUMBER,)), Rank(0, 1))) as run:
        for batch in (batch.compact() for batch in run.epoch(0)):
            assert np.array_equal(batch.number, 1000 + batch.sample_ids)
            found += batch.sample_ids.tolist()
    assert sorted(found) == list(range(2 * COUNT))
    with pytest.raises(PlanError, match="list0 and list1 have other fields, such as 'box'"):
        plan_run(configured((NUMBER,), (NUMBER, BOX)), Rank(0, 1))


@pytest.mark.parametrize("mixed", [False, True])
def test_rows_that_were_kept_have_the_columns_of_their_samples(
    folder: Path, *, mixed: bool
) -> None:
    source: dict[str, Any] = {"loader": Listed(folder)}
    if mixed:
        lists = {f"list{n}": MixedSource(volume=Listed(folder, shift=n * COUNT)) for n in (0, 1)}
        source = {"loader": None, "reader": Reader(mix=lists)}
    found = []
    for store_bytes in (0, 4000, "auto"):
        decode = Auto(sdmp_factor=3, store_bytes=store_bytes)
        rows: list[tuple[int, bytes]] = []
        with Run.open(plan_run(pipeline(**source, decode=decode), Rank(0, 1))) as run:
            for epoch in range(4):
                for batch in run.epoch(epoch):
                    assert np.array_equal(
                        batch.number, np.where(batch.valid, 1000 + batch.sample_ids, 0)
                    )
                    rows += zip(batch.sample_ids.tolist(), map(bytes, batch.images), strict=True)
            reused = run.report()["phases"]["train"]["rows"]["reused"]
        found.append((rows, reused))
    assert found[0][0] == found[1][0] == found[2][0]
    assert 0 == found[0][1] < found[1][1] < found[2][1] == 2 * COUNT * (1 + mixed)
