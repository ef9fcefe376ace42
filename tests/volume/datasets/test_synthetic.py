import json
import logging
from pathlib import Path

import pytest
from pydantic import ValidationError

from dtsflow.config.configurable import is_configurable
from dtsflow.errors import PackError, SetError
from dtsflow.volume.datasets.synthetic import Synthetic
from dtsflow.volume.verifying.verify import verify


@pytest.fixture
def source(tmp_path: Path) -> Synthetic:
    return Synthetic(path=str(tmp_path / "quickstart-data"), images=6, classes=3, seed=1)


def test_it_makes_one_volume_and_cleans_up(source: Synthetic) -> None:
    source.prepare()
    assert sorted(path.name for path in Path(source.path).iterdir()) == [
        "quickstart_train_lv0.dts",
        "quickstart_train_lv0.dts.manifest.jsonl",
        "quickstart_train_lv0.json",
    ]
    assert verify([source.volume]).is_clean
    volumes = source.scan()
    assert (volumes.num_samples, volumes.num_classes) == (6, 3)


def test_it_says_so_before_and_after(source: Synthetic, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dtsflow.volume.datasets.synthetic")
    source.prepare()
    assert [record.message.split()[0] for record in caplog.records] == ["making", "made"]
    source.prepare()
    assert len(caplog.records) == 2


def test_the_same_parameters_keep_the_volume(source: Synthetic) -> None:
    source.prepare()
    before = source.volume.stat().st_mtime_ns
    Synthetic(path=source.path, images=6, classes=3, seed=1).prepare()
    assert source.volume.stat().st_mtime_ns == before


def test_each_level_has_a_volume_of_its_own(source: Synthetic) -> None:
    source.prepare()
    first = source.volume.read_bytes()
    smaller = Synthetic(path=source.path, images=6, classes=3, seed=1, level=3)
    smaller.prepare()
    assert smaller.volume.name == "quickstart_train_lv3.dts"
    assert smaller.scan().level == 3
    assert source.volume.read_bytes() == first


@pytest.mark.parametrize("change", [{"images": 7}, {"classes": 2}, {"seed": 2}])
def test_other_parameters_make_the_volume_again(source: Synthetic, change: dict[str, int]) -> None:
    source.prepare()
    before = source.volume.read_bytes()
    parameters = {"images": 6, "classes": 3, "seed": 1, **change}
    other = Synthetic(
        path=source.path,
        images=parameters["images"],
        classes=parameters["classes"],
        seed=parameters["seed"],
    )
    other.prepare()
    assert source.volume.read_bytes() != before
    assert other.scan().num_samples == parameters["images"]


def test_a_damaged_or_missing_volume_is_made_again(source: Synthetic) -> None:
    source.prepare()
    before = source.volume.read_bytes()
    source.volume.write_bytes(before[:100])
    source.prepare()
    assert source.volume.read_bytes() == before
    source.volume.unlink()
    source.prepare()
    assert source.volume.read_bytes() == before


def test_a_run_killed_between_record_and_volume_is_repaired(source: Synthetic) -> None:
    source.prepare()
    record = source.volume.with_suffix(".json")
    record.write_text(json.dumps({**json.loads(record.read_text()), "crc": 0}))
    source.prepare()
    assert json.loads(record.read_text())["crc"] != 0


def test_a_volume_of_somebody_else_is_left_alone(source: Synthetic) -> None:
    Path(source.path).mkdir()
    source.volume.write_text("mine")
    with pytest.raises(PackError, match="was not made by Synthetic"):
        source.prepare()
    assert source.volume.read_text() == "mine"


def test_an_unprepared_set_is_not_found(source: Synthetic) -> None:
    with pytest.raises(SetError, match=r"quickstart_train_lv0\.dts"):
        source.scan()


def test_it_is_a_configurable_with_limits(tmp_path: Path) -> None:
    assert is_configurable(Synthetic)
    assert Synthetic(path=str(tmp_path)).images == 512
    for wrong in ({"images": 0}, {"classes": 0}, {"seed": -1}, {"path": ""}):
        with pytest.raises(ValidationError):
            Synthetic(**{"path": "x", **wrong})  # type: ignore[arg-type]
