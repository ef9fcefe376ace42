import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dtsflow.cli.main import main
from dtsflow.cli.report import shown
from dtsflow.testing import jpeg, write_block_volume


@pytest.fixture
def sweep(workdir: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = write_block_volume(workdir / "x.dts", [[(jpeg(8, 8, seed=i), 0) for i in range(20)]])
    crop = "po.operations=[{_target_: dtsflow.po.RandomResizedCrop, size: 8}]"
    words = [f"volume.path={path}", crop, "name=mine", "batch_size=4", "workers=1"]
    assert main(["--multirun", *words, "seed=1,2", "lanes=1,3"]) == 1
    capsys.readouterr()
    return Path("runs/mine")


def test_a_sweep_is_a_table_with_what_failed_last(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(sweep)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["run", "seed", "lanes", "images/s", "wait", "memory", "state"]
    assert {line.split()[0] for line in lines[1:3]} == {"runs/mine/0", "runs/mine/2"}
    assert [line.split()[:6] for line in lines[3:]] == [
        ["runs/mine/1", "1", "3", "-", "-", "-"],
        ["runs/mine/3", "2", "3", "-", "-", "-"],
    ]
    assert "failed: PlanError: lanes=3 does not divide" in lines[4]


def test_the_csv_holds_every_figure_as_it_is(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(sweep), "--csv", "all.csv", "--by", "memory"]) == 0
    assert "written: all.csv" in capsys.readouterr().out
    with Path("all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["run", "seed", "lanes", "images/s", "wait", "memory", "state"]
    assert float(rows[0]["memory"]) <= float(rows[1]["memory"])
    assert 0 < float(rows[0]["wait"]) <= 1
    assert rows[2]["images/s"] == ""
    assert rows[2]["state"].endswith("Lanes that do: 1, 2, 4.")


def test_the_plot_is_a_picture(sweep: Path) -> None:
    for by in ("images/s", "wait", "memory"):
        assert main(["report", str(sweep), "--plot", "p.png", "--by", by]) == 0
        with Image.open("p.png") as picture:
            assert len(np.unique(np.asarray(picture.convert("L")))) > 3


def test_single_runs_can_be_compared(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(sweep / "0"), str(sweep / "2")]) == 0
    head = capsys.readouterr().out.splitlines()[0].split()
    assert head == ["run", "seed", "images/s", "wait", "memory"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--plot", "p.jpg"], "must end in .png"),
        (["--by", "speed"], "There is: images/s, wait, memory"),
        (["nowhere"], "nowhere is the folder of no run"),
    ],
)
def test_what_cannot_be_told_is_refused(
    words: list[str], message: str, sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(sweep), *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "figure", "text"),
    [
        ("images/s", 1234.5, "1,234"),
        ("wait", 0.256, "26%"),
        ("memory", 2048.0, "2.0 KiB"),
        ("memory", -5.0, "0 B"),
        ("train loss", 0.123456, "0.1235"),
        ("bad samples", 3.0, "3"),
    ],
)
def test_figures_are_shown_with_their_units(name: str, figure: float, text: str) -> None:
    assert shown(name, figure) == text
