import json
import re
import runpy
import shlex
import shutil
from pathlib import Path
from typing import Any

import dtsflow_image_manifest
import numpy as np
import pytest
from dtsflow_image_manifest import ImageManifest
from PIL import Image

import dtsflow
from dtsflow.cli.main import main
from dtsflow.cli.run import stream
from dtsflow.config.compose import compose
from dtsflow.consumer.consumer import PhaseSetting, Setting
from dtsflow.consumer.digest import Digest, add_sequences
from dtsflow.errors import ConfigError, PlanError, VolumeError
from dtsflow.pipeline.build import build
from dtsflow.pipeline.planner import plan_run
from dtsflow.pipeline.run import Run
from dtsflow.ranks.group import Rank
from dtsflow.testing import check_image_loader, jpeg

DATA = Path(dtsflow_image_manifest.__file__).parent / "data"
FIELDS = {"petals": "INT32", "height_cm": "FP32", "box": "FP32[4]"}
ROWS = [json.loads(line) for line in (DATA / "flowers.jsonl").read_text().splitlines()]
SPECIES = ["daisy", "rose", "tulip"]
CLASSES = [SPECIES.index(row["species"]) for row in ROWS]


def flowers(suffix: str, **more: Any) -> ImageManifest:
    fields = {name: FIELDS[name] for name in FIELDS if suffix == "jsonl" or name != "box"}
    return ImageManifest(str(DATA / f"flowers.{suffix}"), label="species", fields=fields, **more)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_the_shipped_manifests_keep_the_contract(suffix: str) -> None:
    found = check_image_loader(flowers(suffix))
    assert list(found.runs.names) == [row["image"] for row in ROWS]
    assert found.labels.tolist() == CLASSES
    assert list(found.class_names) == SPECIES
    for column in found.columns:
        expected = np.array([row[column.field.name] for row in ROWS], column.field.dtype.numpy)
        assert np.array_equal(column.values, expected)


def test_csv_and_json_lines_are_the_same_data_set() -> None:
    some = {"petals": "INT64", "height_cm": "FP64"}
    csv, lines = (
        ImageManifest(str(DATA / f"flowers.{suffix}"), label="species", fields=some)
        for suffix in ("csv", "jsonl")
    )
    assert check_image_loader(csv).fingerprint() == check_image_loader(lines).fingerprint()


def test_the_experiment_delivers_images_labels_and_fields() -> None:
    with dtsflow.open("+experiment=image_manifest", "reader.shuffle=none", "lanes=1") as run:
        batches = [batch.compact() for batch in run.epoch(0)]
    assert [int(i) for batch in batches for i in batch.sample_ids] == list(range(12))
    assert [int(one) for batch in batches for one in batch.labels] == CLASSES
    for batch in batches:
        assert batch.images.shape == (4, 32, 32, 3)
        assert batch.box.dtype == batch.height_cm.dtype == np.float32
        for row, sample_id in enumerate(batch.sample_ids.tolist()):
            assert batch.petals[row] == ROWS[sample_id]["petals"]
            assert batch.box[row].tolist() == ROWS[sample_id]["box"]
            assert batch.height_cm[row] == np.float32(ROWS[sample_id]["height_cm"])


def digests(ranks: int, start: int) -> tuple[list[int], str, list[int]]:
    """Steps and sequence digests of all ranks of a run from a step on, and its ids."""
    values = compose(["+experiment=image_manifest", "seed=7"]).values
    parts: list[str] = []
    steps: list[int] = []
    ids: list[int] = []
    for index in range(ranks):
        with Run.open(plan_run(build(values), Rank(index, ranks))) as run:
            digest = Digest().open(Setting(None, {"train": PhaseSetting(0)}))
            passed = run.epoch(1, start_step=start)
            steps.append(len(passed))
            for batch in passed:
                digest.take(batch)
                rows = [ROWS[number]["petals"] for number in batch.sample_ids[batch.valid]]
                assert batch.petals[batch.valid].tolist() == rows
                ids += batch.sample_ids[batch.valid].tolist()
            parts.append(digest.results()["digest"]["sequence"])
    return steps, add_sequences(parts), sorted(ids)


def test_any_number_of_ranks_delivers_the_same_each_once_also_when_resumed() -> None:
    steps, whole, ids = digests(1, 0)
    assert ids == list(range(12))
    assert digests(4, 0) == (steps * 4, whole, ids)
    (left,), rest, _ = digests(1, 1)
    assert left == steps[0] - 1
    assert digests(4, 1)[:2] == ([left] * 4, rest)


def test_a_stopped_run_goes_on_unless_the_manifest_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "mine.jsonl"
    mine.write_text((DATA / "flowers.jsonl").read_text())
    words = ["+experiment=image_manifest", f"volume.path={mine}", f"volume.root={DATA}"]
    assert main(["run", *words, "name=whole"]) == 0
    with dtsflow.open(*words, {"name": "parted"}) as run:
        for batch in run:
            if (batch.epoch, batch.step) == (1, 0):
                run.stop()
    assert main(["run", *words, "name=parted", "resume=auto"]) == 0
    reports = {
        name: json.loads((tmp_path / "runs" / name / "report.json").read_text())
        for name in ("whole", "parted")
    }
    assert reports["parted"]["resumed_from"] == {"phase": "train", "epoch": 1, "step": 1}
    with dtsflow.open(*words, {"name": "changed"}) as run:
        for _ in run:
            run.stop()
    rows = [{**row, "petals": row["petals"] + 1} for row in ROWS]
    mine.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.raises(ConfigError, match="data"):
        dtsflow.open(*words, {"name": "changed"}, "resume=auto")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of class folders with a manifest beside them, in another order."""
    root = tmp_path / "photos"
    rows = []
    for number in range(17):
        name = f"{SPECIES[number % 3]}/{number:02d}.jpg"
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(jpeg(20 + number % 5, 24, seed=number))
        rows.append(f"{name},{SPECIES[number % 3]},{number * 3}")
    (root / "m.csv").write_text("image,label,three\n" + "\n".join(reversed(rows)) + "\n")
    return root


PLAIN = (
    "po.operations=[{_target_:dtsflow.po.CenterCrop,size:16}]", "batch_size=4", "lanes=1",
)  # fmt: skip


def delivered(*words: str) -> list[tuple[bytes, int]]:
    """Pixels and label of every image of a run, sorted."""
    with dtsflow.open(*words, *PLAIN) as run:
        return sorted(
            (batch.images[row].tobytes(), int(batch.labels[row]))
            for batch in run.epoch(0)
            for row in np.flatnonzero(batch.valid)
        )


def test_a_run_a_packed_manifest_and_the_folder_give_the_same_images_and_labels(
    photos: Path, tmp_path: Path
) -> None:
    manifest = str(photos / "m.csv")
    packed = tmp_path / "packed"
    assert main(["pack", manifest, str(packed), "--split", "train", "--quiet"]) == 0
    listed = delivered("volume=image_manifest", f"volume.path={manifest}")
    assert listed == delivered(f"volume.path={packed}")
    (photos / "m.csv").rename(tmp_path / "m.csv")  # else it would lie among the images
    assert listed == delivered("volume=raw", f"volume.path={photos}")
    assert len(listed) == 17


def test_a_run_in_the_order_of_the_packed_volume_is_its_sequence(
    photos: Path, tmp_path: Path
) -> None:
    manifest, packed = str(photos / "m.csv"), str(tmp_path / "packed")
    assert main(["pack", manifest, packed, "--split", "train", "--quiet"]) == 0

    def sequence(*words: str) -> list[dict[str, str]]:
        with dtsflow.open(*words, *PLAIN, "consumer=digest") as run:
            stream(run)
            return run.results["digest"]["epochs"]

    words = ["volume=image_manifest", f"volume.path={manifest}", f"reader.order_from={packed}"]
    assert sequence(*words, "+volume.fields.three=INT64") == sequence(f"volume.path={packed}")
    with dtsflow.open(*words, "+volume.fields.three=INT64", *PLAIN) as run:
        where = run.plan.phases["train"].volumes.where
        for batch in (batch.compact() for batch in run.epoch(0)):
            stems = [Path(where(number)).stem for number in batch.sample_ids.tolist()]
            assert batch.three.tolist() == [3 * int(stem) for stem in stems]


def test_options_of_a_pack_are_attributes(photos: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("file,kind\ndaisy/00.jpg,0\nrose/01.jpg,1\n")
    words = ["pack", str(other), str(tmp_path / "out"), "--split", "val", "--quiet"]
    options = ["image=file", "label=kind", f"root={photos}"]
    assert main([*words, *(word for one in options for word in ("--option", one))]) == 0
    assert main(["inspect", str(tmp_path / "out" / "other_val_lv0.dts")]) == 0


def test_images_of_other_formats_and_the_reference_decoder_work(photos: Path) -> None:
    Image.new("RGB", (20, 24), (9, 8, 7)).save(photos / "one.png")
    (photos / "m.jsonl").write_text('{"image": "one.png", "label": 0, "w": 2}\n')
    for decode in ("auto", "pillow"):
        with dtsflow.open(
            "volume=image_manifest", f"volume.path={photos / 'm.jsonl'}", f"decode={decode}",
            "+volume.fields.w=INT64", *PLAIN,
        ) as run:  # fmt: skip
            (batch,) = (batch.compact() for batch in run.epoch(0))
            assert batch.images.tolist() == [[[[9, 8, 7]] * 16] * 16]
            assert batch.w.tolist() == [2]


def test_without_labels_a_run_has_the_fields_alone(photos: Path) -> None:
    found = check_image_loader(
        ImageManifest(str(photos / "m.csv"), label=None, fields={"three": "FP32"})
    )
    assert found.labels.tolist() == [-1] * 17
    assert found.class_names == ()


def test_a_list_of_classes_numbers_names_and_numbers(photos: Path, tmp_path: Path) -> None:
    classes = tmp_path / "classes.txt"
    classes.write_text("tulip\nfern\nrose\ndaisy\n")
    found = check_image_loader(ImageManifest(str(photos / "m.csv"), classes=str(classes)))
    assert found.class_names == ("tulip", "fern", "rose", "daisy")
    assert found.labels.tolist() == [{0: 3, 1: 2, 2: 0}[n % 3] for n in reversed(range(17))]
    (photos / "n.csv").write_text("image,label\nrose/01.jpg,2\nrose/04.jpg,rose\n")
    found = check_image_loader(ImageManifest(str(photos / "n.csv"), classes=str(classes)))
    assert found.labels.tolist() == [2, 2]


def test_whole_numbers_are_labels(photos: Path) -> None:
    (photos / "n.jsonl").write_text(
        '{"image": "rose/01.jpg", "label": 3}\n\n{"image": "rose/04.jpg", "label": "1"}\n'
    )
    found = check_image_loader(ImageManifest(str(photos / "n.jsonl")))
    assert found.labels.tolist() == [3, 1]
    assert found.class_names == ("0", "1", "2", "3")


GOOD = "rose/01.jpg,rose,1.5"
HEADER = "image,label,x"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", r"m\.csv is empty"),
        (HEADER, r"m\.csv lists no image"),
        (
            "image,kind,x\na,b,1",
            r"m\.csv, line 1: there is no column 'label' among 'image', 'kind'",
        ),
        ("image,label,x,x\na,b,1,2", r"m\.csv, line 1: two columns are called 'x'"),
        (f"{HEADER}\n{GOOD}\n{GOOD},4", r"m\.csv, line 3: 4 cells, and the header names 3"),
        (f"{HEADER}\n\n{GOOD}\nrose/04.jpg", r"m\.csv, line 4: 1 cells, and the header"),
        (f'{HEADER}\n"rose/01.jpg,rose,1', r"m\.csv, line 2 is no CSV: unexpected end"),
        (f"{HEADER}\n{GOOD}\nrose/04.jpg,rose,one", r"m\.csv, line 3: x is 'one', and must be a n"),
        (f"{HEADER}\n{GOOD}\nrose/04.jpg,rose,", r"m\.csv, line 3: x is '', and must be a number"),
        (f"{HEADER}\nrose/04.jpg,rose,nan", r"m\.csv, line 2: x is 'nan', and must be a number"),
        (f"{HEADER}\nrose/04.jpg,rose,1e39", r"m\.csv, line 2: x is 1e39, and FP32 holds -3\.4"),
        (f"{HEADER}\nrose/04.jpg,rose,1e9999", r"m\.csv, line 2: x is 1e9999, and FP32 holds"),
        (f"{HEADER}\nrose/04.jpg,,1", r"m\.csv, line 2: label is empty"),
        (f"{HEADER}\nrose/01.jpg,1,1\nrose/04.jpg,-1,1", r"m\.csv, line 3: -1 is no label"),
        (f"{HEADER}\n{GOOD}\nrose/99.jpg,rose,1", r"m\.csv, line 3: '.*rose/99\.jpg' cannot be f"),
        (f"{HEADER}\n../a.jpg,rose,1", r"m\.csv, line 2: '\.\./a\.jpg' is a name that leads out"),
        (f"{HEADER}\n/a.jpg,rose,1", r"m\.csv, line 2: '/a\.jpg' is an absolute name"),
        (f"{HEADER}\nrose,rose,1", r"m\.csv, line 2: .*rose is no file"),
        (f"{HEADER}\n,rose,1", r"m\.csv, line 2: '' is no path of an image"),
        (f"{HEADER}\n{GOOD}\n{GOOD}", r"m\.csv, line 3: rose/01\.jpg is listed before, in .*ine 2"),
    ],
)
def test_what_is_wrong_with_a_csv_is_told_with_file_and_line(
    photos: Path, text: str, told: str
) -> None:
    (photos / "m.csv").write_text(text)
    with pytest.raises(VolumeError, match=told):
        check_image_loader(ImageManifest(str(photos / "m.csv"), fields={"x": "FP32"}))


ROW = '{"image": "rose/01.jpg", "label": "rose", "box": [1, 2.5], "n": 4}'


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", r"m\.jsonl lists no image"),
        ("{", r"m\.jsonl, line 1 is no JSON: "),
        ("[1]", r"m\.jsonl, line 1 is '\[1\]', and must be a JSON object"),
        ("[" * 100_000, r"m\.jsonl, line 1 is no JSON: "),
        (ROW.replace("box", "bax"), r"m\.jsonl, line 1: there is no column 'box' among"),
        (ROW.replace('"n": 4', '"n": 4, "n": 5'), r"line 1 is no JSON: the key 'n' comes twice"),
        (ROW.replace("2.5", "NaN"), "line 1 is no JSON: NaN is no number of JSON"),
        (ROW.replace("2.5", "2.5, 3"), r"line 1: box is a list of 3, and must be a list of 2 n"),
        (ROW.replace("[1, 2.5]", "7"), r"line 1: box is 7, and must be a list of 2 numbers"),
        (ROW.replace("2.5", "null"), r"line 1: box\[1\] is 'None', and must be a number"),
        (ROW.replace("2.5", "1e60"), r"line 1: box\[1\] is 1e\+60, and FP32 holds"),
        (ROW.replace("4}", "4.5}"), r"line 1: n is '4\.5', and must be a whole number"),
        (ROW.replace("4}", "true}"), r"line 1: n is 'True', and must be a whole number"),
        (ROW.replace("4}", "3000000000}"), r"line 1: n is 3000000000, and INT32 holds -2147483648"),
        (ROW.replace('"rose",', "1.5,"), r"line 1: label is 1\.5, and must be a whole number or"),
        (ROW.replace('"rose",', "null,"), r"line 1: label is None, and must be"),
        (ROW.replace('"rose/01.jpg"', "7"), r"line 1: image is 7, and must be the path of an im"),
    ],
)
def test_what_is_wrong_with_json_lines_is_told_with_file_and_line(
    photos: Path, line: str, told: str
) -> None:
    (photos / "m.jsonl").write_text(line + "\n")
    fields = {"box": "FP32[2]", "n": "INT32"}
    with pytest.raises(VolumeError, match=told):
        check_image_loader(ImageManifest(str(photos / "m.jsonl"), fields=fields))


def test_a_label_that_is_no_class_is_told_with_file_and_line(photos: Path, tmp_path: Path) -> None:
    classes = tmp_path / "classes.txt"
    classes.write_text("rose\ntulip\n")
    for label in ("fern", "2"):
        (photos / "m.csv").write_text(f"image,label\nrose/01.jpg,rose\nrose/04.jpg,{label}\n")
        with pytest.raises(VolumeError, match=rf"m\.csv, line 3: '{label}' is none of the 2"):
            ImageManifest(str(photos / "m.csv"), classes=str(classes)).list_images()


def test_files_that_are_no_manifest_are_told(photos: Path) -> None:
    with pytest.raises(VolumeError, match=r"none\.csv cannot be read: No such file"):
        ImageManifest(str(photos / "none.csv")).list_images()
    with pytest.raises(VolumeError, match=r"01\.jpg is no manifest"):
        ImageManifest(str(photos / "rose" / "01.jpg")).list_images()
    (photos / "m.csv").write_bytes(b"image,label\nrose/01.jpg,caf\xe9\n")
    with pytest.raises(VolumeError, match=r"m\.csv is no UTF-8 text"):
        ImageManifest(str(photos / "m.csv")).list_images()


def test_a_list_in_a_csv_and_a_field_of_no_type_are_refused(photos: Path) -> None:
    manifest = ImageManifest(str(photos / "m.csv"), fields={"three": "FP32[2]"})
    with pytest.raises(VolumeError, match=r"m\.csv: three is declared as a list"):
        manifest.list_images()
    words = ("volume=image_manifest", f"volume.path={photos / 'm.csv'}")
    with pytest.raises(ConfigError, match=r"volume\.fields\.three: String should match"):
        dtsflow.open(*words, "+volume.fields.three=FP33")
    (photos / "m.csv").write_text("image,label,labels\nrose/01.jpg,rose,1\n")
    with pytest.raises(PlanError, match=r"field 'labels': a batch has something else"):
        dtsflow.open(*words, "+volume.fields.labels=FP32")


def test_a_byte_order_mark_quotes_and_spaces_are_read(photos: Path) -> None:
    (photos / "ro,se.jpg").write_bytes(jpeg(8, 8))
    text = '\ufeffimage, label ,x\r\n"ro,se.jpg", rose , -.5e1\r\n'
    (photos / "m.csv").write_text(text, encoding="utf-8", newline="")
    found = check_image_loader(ImageManifest(str(photos / "m.csv"), fields={"x": "FP32"}))
    assert list(found.runs.names) == ["ro,se.jpg"]
    assert found.class_names == ("rose",)
    assert found.columns[0].values.tolist() == [-5.0]


def test_the_plugin_is_listed_with_what_it_brings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins"]) == 0
    shown = capsys.readouterr().out
    assert "volume    dtsflow_image_manifest.ImageManifest" in shown
    assert "pack      image_manifest (.csv .jsonl)" in shown


README = (Path(dtsflow_image_manifest.__file__).parents[1] / "README.md").read_text()


def test_the_tutorial_can_be_followed_literally(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(DATA, tmp_path / "flowers")
    more = [json.dumps({**row, "weight": 1.5}) for row in ROWS]
    (tmp_path / "flowers" / "more.jsonl").write_text("\n".join(more))
    written = re.findall(r"^`(\S+)`:\n\n```\w+\n(.*?)```$", README, re.DOTALL | re.MULTILINE)
    assert [path for path, _ in written] == ["conf/experiment/flowers.yaml", "look.py"]
    for path, text in written:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    commands = "".join(re.findall(r"^```sh\n(.*?)```$", README, re.DOTALL | re.MULTILINE))
    for command in commands.splitlines():
        program, *words = shlex.split(command)
        assert program == "dtsflow"
        assert main(words) == 0, capsys.readouterr().err
    capsys.readouterr()
    runpy.run_path(str(tmp_path / "look.py"))
    assert capsys.readouterr().out.count("(4, 32, 32, 3)") == 3
    check = re.findall(r"^```python\n(.*?)```$", README, re.DOTALL | re.MULTILINE)[-1]
    (tmp_path / "check.py").write_text(check)
    found = runpy.run_path(str(tmp_path / "check.py"))["found"]
    assert found.labels.tolist() == CLASSES


def test_the_tutorial_shows_the_shipped_files() -> None:
    project = Path(dtsflow_image_manifest.__file__).parents[1]
    shown = re.findall(r"^```(?:text|toml)\n(.*?)```$", README, re.DOTALL | re.MULTILINE)
    files = [DATA / "flowers.csv", DATA / "flowers.jsonl", project / "pyproject.toml"]
    for text, path in zip(shown, files, strict=True):
        assert text in path.read_text()
