import json
from pathlib import Path

import pytest
from PIL import Image

from dtsflow.cli.bench_pictures import names
from dtsflow.cli.main import main
from dtsflow.native.core import load

QUICK = ["bench", "po", "--size", "16x12", "--images", "2", "--repeats", "2"]


def test_all_operations_are_in_the_table_the_json_and_the_picture(
    workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*QUICK, "--json", "po.json", "--png", "po.png"]) == 0
    told = capsys.readouterr().out
    document = json.loads(Path("po.json").read_text())
    found = [one["operation"].split("(")[0] for one in document["operations"]]
    assert found == names()
    assert all(name in told for name in names())
    assert document["facts"]["images"] == "2 photos of 16 x 12 x 3, uint8"
    for one in document["operations"]:
        assert len(one["us"]["draw"]) == len(one["us"]["reference"]) == 2
        assert (one["us"]["native"] is None) == (load() is None)
    with Image.open(workdir / "po.png") as page:
        assert page.format == "PNG"
        assert page.height > 160 * (len(names()) // 3)


def test_single_operations_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--operation", "Pad", "--operation", "Resize"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("(")[0] for line in lines[-2:]] == ["Pad", "Resize"]
    assert main([*QUICK, "--operation", "Padd"]) == 2
    assert "--operation Padd: there is no such one. Did you mean 'Pad'?" in capsys.readouterr().err


def test_a_chain_is_measured_one_by_one_and_whole(workdir: Path) -> None:
    words = [*QUICK, "--channels", "1", "po=mnist_augmented", "--json", "po.json"]
    assert main(words) == 0
    document = json.loads((workdir / "po.json").read_text())
    found = [one["operation"].split("(")[0] for one in document["operations"]]
    wanted = ["Pad", "RandomCrop", "RandomRotation", "RandomScale", "Normalize", "RandomErasing"]
    assert found == [*wanted, "the whole chain"]


def test_an_experiment_needs_no_data_and_each_phase_has_its_chain(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [*QUICK, "--channels", "1", "+experiment=mnist"]
    assert main([*words, "--phase", "val"]) == 0
    assert "Normalize(preset=mnist" in capsys.readouterr().out
    assert main([*words, "--phase", "test"]) == 2
    assert "--phase test: there are only train, val" in capsys.readouterr().err


def test_operations_that_refuse_gray_images_say_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--channels", "1", "--operation", "RandomGrayscale"]) == 0
    assert "RandomGrayscale(p=1): it takes colours" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["po=none"], "the chain has no operation"),
        (["po=mnist"], r"po.operations[0] (Normalize): preset mnist is for 1 channel"),
        (["vgg"], "'vgg' is no KEY=VALUE"),
        (["po=mnist", "--operation", "Pad"], "--operation chooses among all operations"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*QUICK, *words]) == 2
    assert message in capsys.readouterr().err


def test_no_image_at_all_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "po", "--images", "0"])
    assert "0 is too few" in capsys.readouterr().err
