import json
from pathlib import Path

import pytest
from PIL import Image

from dtsflow.cli.main import main

WORDS = ["+experiment=quickstart", "volume.images=10", "volume.classes=3", "batch_size=4"]


def test_quickstart_makes_its_data_and_streams_two_epochs_onto_a_sheet(
    workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*WORDS, "po.operations[0].size=64"]) == 0
    told = capsys.readouterr().out
    report = json.loads(Path("runs/quickstart/report.json").read_text())
    assert (report["epochs"], report["steps"], report["images"]) == (2, 6, 20)
    assert "epoch 0: 3/3" in told
    assert "epoch 1: 3/3" in told
    assert "20 in 6 steps" in told
    assert report["sheet"] == str(workdir / "runs/quickstart/sheet.png")
    with Image.open(report["sheet"]) as sheet:
        assert sheet.width >= 4 * 96
        assert len(sheet.convert("RGB").getcolors(1 << 24) or []) > 1000
    volume = Path("runs/quickstart-data/quickstart_train_lv0.dts")
    made = volume.stat().st_mtime_ns
    assert main([*WORDS, "po.operations[0].size=64", "epochs=1"]) == 0
    assert volume.stat().st_mtime_ns == made
    assert json.loads(Path("runs/quickstart/report.json").read_text())["epochs"] == 1
    assert json.loads(Path("runs/quickstart.1/report.json").read_text())["epochs"] == 2
