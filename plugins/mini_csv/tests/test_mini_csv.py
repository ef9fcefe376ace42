import json
import re
from pathlib import Path

import dtsflow_mini_csv
import numpy as np
import pytest
from dtsflow_mini_csv import MiniDecoder, MiniReader

import dtsflow
from dtsflow.cli.main import main
from dtsflow.cli.run import stream
from dtsflow.config.compose import compose
from dtsflow.consumer.consumer import PhaseSetting, Setting
from dtsflow.consumer.digest import Digest, add_sequences
from dtsflow.consumer.softmax import Line
from dtsflow.pipeline.build import build
from dtsflow.pipeline.planner import plan_run
from dtsflow.pipeline.run import Run
from dtsflow.plugin import Batch, ConfigError, DecodeError, VolumeError
from dtsflow.ranks.group import Rank
from dtsflow.testing import check_loader, check_parser

DATA = Path(dtsflow_mini_csv.__file__).parent / "data"
ROWS = {1.01: 2.02, 2.01: 4.02, 3.0: 6.05, 4.1: 8.205, 5.0: 10.0, 6.0: 12.0, 7.0: 14.2,
        8.0: 16.3, 9.1: 18.03}  # fmt: skip
SHUFFLED = "volume.random_shuffle=true"


def write_parts(folder: Path, *parts: str) -> Path:
    for number, text in enumerate(parts):
        (folder / f"part-{number:03d}").write_text(text)
    return folder


def read(folder: Path, parts: int, *overrides: str) -> Run:
    return dtsflow.open(
        "+experiment=mini_csv", f"volume.data_dir={folder}", f"volume.data_part_num={parts}",
        *overrides,
    )  # fmt: skip


def test_the_attributes_and_defaults_are_those_of_the_tutorial() -> None:
    reader = MiniReader("somewhere", 2)
    assert reader.part_name_prefix == "part-"
    assert reader.part_name_suffix_length == -1
    assert not reader.random_shuffle
    assert not reader.shuffle_after_epoch
    assert reader.seed == -1
    assert reader.shuffle_buffer_size == 1024


def test_reader_and_decoder_keep_their_contracts() -> None:
    records = check_loader(MiniReader(str(DATA), 2, part_name_suffix_length=3))
    fields = check_parser(MiniDecoder(), records)
    assert dict(zip(fields["x"].ravel(), fields["y"].ravel(), strict=True)) == ROWS


def test_the_experiment_finds_the_slope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "+experiment=mini_csv"]) == 0
    report = json.loads((tmp_path / "runs" / "mini_csv" / "report.json").read_text())
    x, y = np.array(list(ROWS)), np.array(list(ROWS.values()))
    assert report["train"]["slope"] == pytest.approx((x * y).sum() / (x * x).sum(), rel=1e-12)
    assert report["images"] == 27


def test_a_stopped_fit_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "+experiment=mini_csv", "name=whole", SHUFFLED]) == 0
    step = Line.step
    with (
        monkeypatch.context() as patched,
        dtsflow.open("+experiment=mini_csv", SHUFFLED, {"name": "parted"}) as run,
    ):

        def stopping(line: Line, batch: Batch) -> float:
            if (batch.epoch, batch.step) == (1, 1):
                run.stop()
            return step(line, batch)

        patched.setattr(Line, "step", stopping)
        stream(run)
    assert not (tmp_path / "runs" / "parted" / "report.json").exists()
    assert main(["run", "+experiment=mini_csv", "name=parted", SHUFFLED, "resume=auto"]) == 0
    whole, parted = (
        json.loads((tmp_path / "runs" / name / "report.json").read_text())
        for name in ("whole", "parted")
    )
    assert parted["resumed_from"] == {"phase": "train", "epoch": 1, "step": 2}
    assert parted["train"] == whole["train"]


def digests(ranks: int, start: int, *overrides: str) -> tuple[list[int], str, list[int]]:
    """Steps and sequence digests of all ranks of a run from a step on, and its ids."""
    values = compose(["+experiment=mini_csv", "seed=7", *overrides]).values
    steps, parts, ids = [], [], []
    for index in range(ranks):
        with Run.open(plan_run(build(values), Rank(index, ranks))) as run:
            digest = Digest().open(Setting(None, {"train": PhaseSetting(0)}))
            passed = run.epoch(1, start_step=start)
            steps.append(len(passed))
            for batch in passed:
                digest.take(batch)
                ids += batch.sample_ids[batch.valid].tolist()
            parts.append(digest.results()["digest"]["sequence"])
    return steps, add_sequences(parts), sorted(ids)


@pytest.mark.parametrize(
    "order", [(), (SHUFFLED, "volume.shuffle_buffer_size=2"), ("volume.shuffle_after_epoch=true",)]
)
def test_any_number_of_ranks_delivers_the_same_each_once_also_when_resumed(
    order: tuple[str, ...],
) -> None:
    steps, whole, ids = digests(1, 0, *order)
    assert ids == list(range(9))
    assert digests(4, 0, *order) == (steps * 4, whole, ids)
    (left,), rest, _ = digests(1, 1, *order)
    assert left == steps[0] - 1
    assert digests(4, 1, *order)[:2] == ([left] * 4, rest)
    with dtsflow.open("+experiment=mini_csv", "seed=7", *order) as run:
        digest = Digest().open(Setting(None, {"train": PhaseSetting(0)}))
        digest.take(next(iter(run.epoch(1))))
    first = digest.results()["digest"]["sequence"]
    assert add_sequences([first, rest]) == whole


def test_each_epoch_is_shuffled_anew_and_only_if_asked() -> None:
    def epochs(*overrides: str) -> list[list[int]]:
        words = ("+experiment=mini_csv", "lanes=1", *overrides)
        with dtsflow.open(*words) as run:
            return [
                [int(i) for batch in run.epoch(epoch) for i in batch.sample_ids[batch.valid]]
                for epoch in range(2)
            ]

    plain = epochs()
    assert plain == [list(range(9))] * 2
    first, second = epochs(SHUFFLED, "volume.shuffle_buffer_size=4")
    assert first != second
    for order in (first, second):  # no line leaves its buffer
        assert [number // 4 for number in order] == [0] * 4 + [1] * 4 + [2]
    first, second = epochs("volume.shuffle_after_epoch=true")
    assert first != second


@pytest.mark.parametrize("bad", ["3.0;6.0", "3.0", "3.0,6.0,9.0", "three,6.0", ""])
def test_a_bad_line_is_named_with_file_and_line(tmp_path: Path, bad: str) -> None:
    write_parts(tmp_path, "1,2\n2,4\n", f"4,8\n{bad}\n5,10\n")
    with (
        pytest.raises(DecodeError, match=r"part-001, line 2 \(sample_id 3\) cannot be parsed"),
        read(tmp_path, 2) as run,
    ):
        list(run.epoch(0))


def test_a_bad_line_can_be_left_out_or_replaced(tmp_path: Path) -> None:
    write_parts(tmp_path, "1,2\n2;4\n3,6\n4,8\n")
    with read(tmp_path, 1, "decode.on_error=mask") as run:
        (batch,) = (batch.compact() for batch in run.epoch(0))
        assert batch.x.ravel().tolist() == [1.0, 3.0, 4.0]
    with read(tmp_path, 1, "decode.on_error=replace") as run:
        (batch,) = (batch.compact() for batch in run.epoch(0))
        assert batch.x.ravel().tolist() == [1.0, 3.0, 3.0, 4.0]
        (bad,) = run.bad_samples
        assert bad.where.endswith("part-000, line 2")
        assert (bad.sample_id, bad.substitute) == (1, 2)


def test_a_missing_part_is_named_and_those_that_are_there(tmp_path: Path) -> None:
    write_parts(tmp_path, "1,2\n", "2,4\n")
    with pytest.raises(VolumeError, match=r"part-002 is not there. There are 2 parts: part-000, "):
        read(tmp_path, 3)


def test_a_wrong_suffix_length_is_told_the_right_one(tmp_path: Path) -> None:
    write_parts(tmp_path, "1,2\n")
    with pytest.raises(VolumeError, match=r"part-0 is not there.*3 digits are suffix length 3"):
        read(tmp_path, 1, "volume.part_name_suffix_length=-1")


def test_an_empty_part_is_named(tmp_path: Path) -> None:
    write_parts(tmp_path, "1,2\n", "")
    with pytest.raises(VolumeError, match=r"part-001 is empty"):
        read(tmp_path, 2)


def test_a_seed_of_its_own_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"volume\.seed: Input should be -1 \(got 5\)"):
        dtsflow.open("+experiment=mini_csv", "volume.seed=5")


def test_the_tutorial_followed_literally_gives_this_very_plugin() -> None:
    project = Path(dtsflow_mini_csv.__file__).parents[1]
    readme = (project / "README.md").read_text()
    shown = dict(re.findall(r"^`(\S+)`:\n\n```\w*\n(.*?)```$", readme, re.DOTALL | re.MULTILINE))
    package = project / "dtsflow_mini_csv"
    files = [project / "pyproject.toml", *package.rglob("*.py"), *package.rglob("*.yaml")]
    files += DATA.iterdir()
    assert shown == {str(path.relative_to(project)): path.read_text() for path in files}


def test_the_code_has_less_than_40_lines() -> None:
    code = (Path(dtsflow_mini_csv.__file__).parent / "mini.py").read_text()
    bare = re.sub(r'^\s*""".*?"""\n', "", code, flags=re.DOTALL | re.MULTILINE)
    assert len([line for line in bare.splitlines() if line.strip()]) < 40
