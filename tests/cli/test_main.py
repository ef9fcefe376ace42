import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from dtsflow import __version__
from dtsflow.cli.main import COMMANDS, main
from dtsflow.testing import jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import Kind

Run = tuple[int, str, str]


@pytest.fixture
def volume(workdir: Path) -> Path:
    images = [[(jpeg(seed=i), i % 3) for i in range(10)]]
    return write_block_volume(workdir / "tiny_train_lv0.dts", images)


def call(capsys: pytest.CaptureFixture[str], *words: object) -> Run:
    try:
        status = main([str(word) for word in words])
    except SystemExit as left:
        status = int(left.code or 0)
    told = capsys.readouterr()
    return status, told.out, told.err


def run_words(volume: Path, *more: str) -> Sequence[str]:
    size = "po.operations.0.size=16"
    return ["+experiment=imagenet_train", f"volume.path={volume}", "tail=pad", size, *more]


def test_alone_it_lists_commands_experiments_and_groups(
    capsys: pytest.CaptureFixture[str], workdir: Path
) -> None:
    for words in ([], ["--help"]):
        status, told, _ = call(capsys, *words)
        assert status == 0
        for word in (*COMMANDS, "quickstart", "imagenet_train", "reader", "resident"):
            assert word in told
    assert call(capsys, "--version") == (0, f"{__version__}\n", "")
    assert workdir.is_dir()


def test_own_experiments_are_listed(capsys: pytest.CaptureFixture[str], workdir: Path) -> None:
    (workdir / "conf" / "experiment").mkdir(parents=True)
    (workdir / "conf" / "experiment" / "ours.yaml").write_text("# Our own thing.\nseed: 1\n")
    _, told, _ = call(capsys)
    assert "ours" in told
    assert "Our own thing." in told


def test_a_run_writes_its_folder_and_sums_up(
    capsys: pytest.CaptureFixture[str], volume: Path
) -> None:
    words = run_words(volume, "consumer=digest", "epochs=2", "batch_size=4")
    status, told, _ = call(capsys, "run", *words)
    folder = Path("runs/imagenet_train")
    report = json.loads((folder / "report.json").read_text())
    assert status == 0
    assert "20 in 6 steps" in told
    assert "epoch 1: 3/3" in told
    assert report["images"] == 20
    assert report["steps"] == 6
    assert report["epochs"] == 2
    assert report["digest"]["sequence"] in told
    assert [e["epoch"] for e in report["digest"]["epochs"]] == [0, 1]
    assert set(report["stages"]) == {"read", "decode", "po", "native", "wait"}
    assert report["command"].startswith("dtsflow +experiment=imagenet_train")
    assert report["versions"]["dtsflow"] == __version__
    for key in ("images_per_s", "first_batch_s", "peak_rss_bytes", "plan_bytes"):
        assert report[key] > 0
    assert "RandomResizedCrop" in (folder / "plan.txt").read_text()
    assert "batch_size: 4" in (folder / "config.yaml").read_text()
    assert (folder / "rank0.log").is_file()


def test_run_may_be_left_out_and_a_finished_run_is_kept(
    capsys: pytest.CaptureFixture[str], volume: Path
) -> None:
    for seed in (1, 2, 3):
        assert call(capsys, *run_words(volume, f"seed={seed}", "batch_size=4"))[0] == 0
    for seed, folder in ((1, "imagenet_train.1"), (2, "imagenet_train.2"), (3, "imagenet_train")):
        assert f"\nseed: {seed}\n" in Path("runs", folder, "config.yaml").read_text()
        assert Path("runs", folder, "report.json").is_file()
    assert not Path("runs/imagenet_train.3").exists()


def test_a_failed_run_leaves_no_report(capsys: pytest.CaptureFixture[str], workdir: Path) -> None:
    path = write_block_volume(workdir / "x.dts", [[(jpeg()[:90], 0)]])
    status, _, told = call(capsys, *run_words(path))
    assert status == 1
    assert told.startswith("dtsflow: ")
    assert "x.dts" in told
    assert "sample_id 0" in told
    assert not Path("runs/imagenet_train/report.json").exists()


def test_max_steps_ends_a_run_early(capsys: pytest.CaptureFixture[str], volume: Path) -> None:
    words = run_words(volume, "epochs=3", "batch_size=4", "max_steps=4")
    assert "in 4 steps" in call(capsys, *words)[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["+experiment=quickstrat"], "Did you mean 'quickstart'?"),
        (["seed=-1", "volume.path=x"], "seed: "),
        (["reader._target_=os.system", "volume.path=x"], "reader._target_: 'os.system' is not"),
        (["+experiment=mnist"], "phases.train.volume.path has no value yet"),
        (["paln"], "'paln' is neither a command nor KEY=VALUE"),
        (["name=../x", "volume.path=tiny_train_lv0.dts", "po=imagenet_train"], "name: '../x'"),
    ],
)
def test_a_wrong_configuration_is_one_line_and_status_two(
    capsys: pytest.CaptureFixture[str], volume: Path, words: list[str], message: str
) -> None:
    status, out, told = call(capsys, *words)
    assert status == 2
    assert message in told
    assert told.count("\n") == 1
    assert out == ""
    assert volume.is_file()


def test_plan_prints_and_writes_nothing(capsys: pytest.CaptureFixture[str], volume: Path) -> None:
    status, told, _ = call(capsys, "plan", *run_words(volume, "batch_size=8"))
    assert status == 0
    for word in ("10 samples", "8 lanes", "ranks that can share it: 1, 2, 4, 8", "I_A_DATA"):
        assert word in told
    assert not Path("runs").exists()


def test_plan_refuses_more_memory_than_allowed(
    capsys: pytest.CaptureFixture[str], volume: Path
) -> None:
    status, _, told = call(capsys, "plan", *run_words(volume, "memory.limit=1000"))
    assert status == 2
    assert "resident blocks" in told


def test_inspect_shows_a_volume_to_people_and_machines(
    capsys: pytest.CaptureFixture[str], volume: Path
) -> None:
    _, told, _ = call(capsys, "inspect", volume)
    assert "samples       10" in told
    _, told, _ = call(capsys, "inspect", volume, "--json")
    facts = json.loads(told)
    assert facts["samples"] == 10
    assert facts["samples_per_class"] == [4, 3, 3]
    assert facts["sample_bytes"]["min"] > 100
    write_small_set(volume.parent / "mnist_test.dts", Kind.MNIST, 30)
    _, told, _ = call(capsys, "inspect", volume.parent / "mnist_test.dts", "--json")
    assert json.loads(told)["sample_bytes"] == {"min": 784, "mean": 784.0, "max": 784}


def test_inspect_names_what_is_wrong(capsys: pytest.CaptureFixture[str], volume: Path) -> None:
    with volume.open("r+b") as file:
        file.truncate(20 << 20)
    status, _, told = call(capsys, "inspect", volume)
    assert status == 1
    assert str(volume) in told


def test_photos_are_made_packed_and_run(capsys: pytest.CaptureFixture[str], workdir: Path) -> None:
    assert call(capsys, "synth", "photos", "--images", 7, "--classes", 2)[0] == 0
    status, told, _ = call(capsys, "pack", "photos", "out", "--split", "train", "--level", 0)
    assert status == 0
    assert "7 images, 2 classes, 1 block," in told
    path = workdir / "out" / "photos_train_lv0.dts"
    assert call(capsys, "+experiment=image_folder", f"volume.path={path}")[0] == 0
    report = json.loads(Path("runs/image_folder/report.json").read_text())
    assert report["images"] == 7


def test_doctor_examines_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    status, told, _ = call(capsys, "doctor")
    assert status == 0
    for part in ("libjpeg-turbo", "pillow", "native", "mpi", "cupy", "memory limit", "cpus"):
        assert part in told


def test_the_module_is_the_command(workdir: Path) -> None:
    words = [sys.executable, "-m", "dtsflow", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=workdir)
    assert done.stdout == f"{__version__}\n"


def test_a_reader_that_goes_away_is_no_error(workdir: Path) -> None:
    words = f"{sys.executable} -m dtsflow | head -1"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert workdir.is_dir()


def test_an_interrupt_ends_a_run_with_its_own_status(volume: Path) -> None:
    words = [sys.executable, "-m", "dtsflow", *run_words(volume, "epochs=100000", "batch_size=2")]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.send_signal(2)
        assert process.wait(timeout=5) == 130
        assert process.stderr.read().startswith("dtsflow: stopped by SIGINT at epoch ")
