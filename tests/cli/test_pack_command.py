import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from dtsflow.cli.main import main
from dtsflow.testing import jpeg
from dtsflow.volume.datasets.access import open_volumes

Run = tuple[int, str, str]


def call(capsys: pytest.CaptureFixture[str], *words: object) -> Run:
    try:
        status = main([str(word) for word in words])
    except SystemExit as left:
        status = int(left.code or 0)
    told = capsys.readouterr()
    return status, told.out, told.err


@pytest.fixture
def photos(workdir: Path) -> Path:
    folder = workdir / "photos"
    for number in range(20):
        path = folder / "ab"[number % 2] / f"{number:02d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(420, 300, seed=number))
    return folder


def test_photos_are_packed_checked_and_written_back(
    capsys: pytest.CaptureFixture[str], photos: Path
) -> None:
    status, told, _ = call(capsys, "pack", photos, "out", "--split", "train")
    assert status == 0
    assert "check: 20/20" in told
    assert "pack: 20/20" in told
    assert "20 images, 2 classes, 1 block, 32.0 MiB: out/photos_train_lv0.dts" in told
    status, told, _ = call(capsys, "verify", "out", "--decode")
    assert (status, told.splitlines()[-1]) == (
        0,
        "1 file, 1 block, 20 samples: nothing is wrong",
    )
    status, told, _ = call(capsys, "export", "out", "again")
    assert status == 0
    for path in photos.rglob("*.jpg"):
        assert (Path("again") / path.relative_to(photos)).read_bytes() == path.read_bytes()


def test_every_option_reaches_the_packer(capsys: pytest.CaptureFixture[str], photos: Path) -> None:
    Path("names.txt").write_text("b\na\nc\n")
    words = ["--split", "val", "--name", "mine", "--level", 2, "--classes", "names.txt"]
    words += ["--only", "a", "--limit", 8, "--fraction", 1, "--volumes", 2, "--short", 200]
    words += ["--long", 250, "--quality", 60, "--subsampling", "4:4:4", "--workers", 1, "--quiet"]
    words += ["--oversize", "reencode"]
    status, told, _ = call(capsys, "pack", photos, "out", *words)
    assert status == 0
    assert "12 images left out, not asked for" in told
    assert "check" not in told
    status, told, _ = call(capsys, "inspect", "out", "--json")
    facts = json.loads(told)
    assert [Path(file).name for file in facts["files"]] == [
        "mine_val_lv2-00001-of-00002.dts",
        "mine_val_lv2-00002-of-00002.dts",
    ]
    assert facts["class_names"] == ["b", "a", "c"]
    assert facts["samples_per_class"] == [0, 8, 0]
    recipe = facts["index"]["options"]["recipe"]
    assert recipe | {"short": 200, "long": 250, "quality": 60, "subsampling": "4:4:4"} == recipe
    assert facts["headers"][0]["max_pic_area"] == 250 * 200
    assert facts["index"]["options"]["layout"]["oversize"] == "reencode"


def test_shards_go_out_and_in(capsys: pytest.CaptureFixture[str], photos: Path) -> None:
    assert call(capsys, "pack", photos, "out", "--split", "train")[0] == 0
    words = ["--to", "webdataset", "--shard-samples", 6]
    status, told, _ = call(capsys, "export", "out", "shards", *words)
    assert (status, "20 images, 2 classes, 4 shards: shards" in told) == (0, True)
    words = ["--format", "webdataset", "--image-field", "jpg", "--label-field", "cls"]
    shards = "shards/shard-{000001..000003}.tar"
    status, told, _ = call(capsys, "pack", shards, "again", "--split", "train", *words)
    assert (status, "14 images, 2 classes, 1 block" in told) == (0, True)
    assert Path("again/shards_train_lv0.dts").is_file()
    status, _, told = call(capsys, "pack", shards, "more", "--split", "val", "--image-field", "png")
    assert (status, "all 14 images were rejected" in told) == (1, True)


def test_a_table_without_a_spool_is_told_to_have_one(
    capsys: pytest.CaptureFixture[str], workdir: Path
) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"image": [jpeg(8, 8)], "label": [0]}), workdir / "t.parquet")
    words = ["pack", "t.parquet", "out", "--split", "train"]
    status, _, told = call(capsys, *words)
    assert (status, "--spool FOLDER" in told) == (1, True)
    status, told, _ = call(capsys, *words, "--spool", "spool")
    assert (status, "1 image, 1 class" in told) == (0, True)


def test_compat_and_min_blocks_reach_the_packer(
    capsys: pytest.CaptureFixture[str], photos: Path
) -> None:
    for path in photos.rglob("*.jpg"):
        path.rename(path.with_suffix(".jpeg"))
    words = ["--split", "train", "--compat", "upstream", "--min-blocks", 3]
    assert call(capsys, "pack", photos, "out", *words)[0] == 0
    facts = json.loads(call(capsys, "inspect", "out", "--json")[1])
    assert (facts["blocks"], facts["index"]) == (3, None)
    status, _, error = call(capsys, "pack", photos, "o", "--split", "train", "--min-blocks", 3)
    assert (status, "min-blocks is a number of upstream's packer" in error) == (1, True)


def test_labels_and_ids_choose_among_a_flat_tar(
    capsys: pytest.CaptureFixture[str], workdir: Path
) -> None:
    with tarfile.open("flat.tar", "w") as tar:
        for number in range(4):
            path = workdir / f"{number}.jpg"
            path.write_bytes(jpeg(seed=number))
            tar.add(path, path.name)
    Path("labels.csv").write_text("file,label\n0.jpg,dog\n1.jpg,cat\n2.jpg,dog\n")
    Path("ids.txt").write_text("0\n1\n3\n")
    words = ["--split", "test", "--labels", "labels.csv", "--ids", "ids.txt"]
    status, told, _ = call(capsys, "pack", "flat.tar", "out", *words)
    assert status == 0
    assert "2 images, 2 classes" in told
    assert "1 file rejected, see out/flat_test_lv0.dts.rejects.jsonl" in told
    with open_volumes("out") as volumes:
        assert sorted(sample.class_name for sample in volumes) == ["cat", "dog"]


def test_a_dry_run_says_what_would_be_written(
    capsys: pytest.CaptureFixture[str], photos: Path
) -> None:
    (photos / "a" / "empty.jpg").touch()
    status, told, _ = call(capsys, "pack", photos, "out", "--split", "train", "--dry-run")
    assert status == 0
    for what in (
        "would write  out/photos_train_lv0.dts",
        "images       20 of 2 classes",
        "rejected     1",
        "blocks       1, 32.0 MiB",
        "a/empty.jpg: the file is empty",
    ):
        assert what in told
    assert not Path("out").exists()


def test_a_pack_that_nobody_watches_goes_on(photos: Path) -> None:
    command = [sys.executable, "-m", "dtsflow", "pack", str(photos), "out", "--split", "train"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    assert Path("out/photos_train_lv0.dts").exists()


def test_the_lists_of_rejects_that_are_named_are_there(
    capsys: pytest.CaptureFixture[str], photos: Path
) -> None:
    (photos / "a" / "no.jpg").write_text("no image")
    words = ["pack", photos, "out", "--split", "train", "--level", 3, "--volumes", 2, "--quiet"]
    status, told, _ = call(capsys, *words)
    assert status == 0
    (listed,) = Path("out").glob("*.rejects.jsonl")
    assert f"1 file rejected, see {listed}" in told


def test_a_pack_that_cannot_be_is_one_line(
    capsys: pytest.CaptureFixture[str], photos: Path
) -> None:
    for words, what in (
        (["nowhere", "out"], "nowhere is not there"),
        ([photos, "out", "--quality", 50], "quality = 50 has no meaning here: level 0"),
        ([photos, "out", "--level", 1, "--quality", 101], "quality = 101 is out of range"),
        ([photos, "out", "--volumes", 0], "both start at 1"),
        ([photos, "out", "--only", "c"], "no class 'c'"),
    ):
        status, _, error = call(capsys, "pack", *words, "--split", "train")
        assert (status, error.count("\n")) == (1, 1)
        assert what in error


def test_inspect_draws_the_sizes(capsys: pytest.CaptureFixture[str], photos: Path) -> None:
    (photos / "a" / "large.jpg").write_bytes(jpeg(2000, 1500))
    call(capsys, "pack", photos, "out", "--split", "train")
    status, told, _ = call(capsys, "inspect", "out")
    assert status == 0
    assert "mean, std" in told
    short_sides = told[told.index("short side") :].splitlines()
    assert short_sides[1].split()[:3] == ["256", "to", "511"]
    assert short_sides[1].split()[-1] == "20"
    assert short_sides[-1].split()[-1] == "1"
