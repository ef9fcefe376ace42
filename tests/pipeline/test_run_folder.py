import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dtsflow.errors import ConfigError
from dtsflow.pipeline.run_folder import RunFolder
from dtsflow.ranks.group import Rank

pytestmark = pytest.mark.usefixtures("workdir")
LOGGER = logging.getLogger("dtsflow")


@contextmanager
def made(name: str, rank: int = 0) -> Iterator[RunFolder]:
    folder = RunFolder.make(name, Rank(rank, 2), "dtsflow x")
    try:
        yield folder
    finally:
        folder.close()


def test_a_folder_keeps_what_is_logged_while_it_is_open_rank_in_each_line() -> None:
    with made("a", rank=1) as folder:
        logging.getLogger("dtsflow.deep.inside").info("it %s", "happened")
        logging.getLogger("elsewhere").warning("no business of ours")
        logging.getLogger("dtsflow").debug("a detail")
    LOGGER.info("afterwards")
    lines = (folder.path / "rank1.log").read_text().splitlines()
    assert len(lines) == 1
    assert lines[0].endswith("rank 1 INFO dtsflow.deep.inside: it happened")
    assert folder.log_file not in LOGGER.handlers


def test_only_a_finished_run_is_kept_under_the_next_free_number() -> None:
    for text in ("first", "failed", "third", "fourth"):
        with made("a/b") as folder:
            folder.write("config.yaml", text)
            if text != "failed":
                folder.write_report({"images": 1})
    kept = {path.name: (path / "config.yaml").read_text() for path in Path("runs/a").iterdir()}
    assert kept == {"b.1": "first", "b.2": "third", "b": "fourth"}


def test_a_name_whose_run_is_still_open_is_refused_and_its_folder_left_alone() -> None:
    with made("a") as folder:
        folder.write_report({"images": 1})
        with pytest.raises(ConfigError, match="runs/a belongs to a run that is still open"):
            RunFolder.make("a", Rank(0, 2), "dtsflow x")
        assert [path.name for path in Path("runs").iterdir()] == ["a"]
    with made("a"):
        assert Path("runs/a.1/report.json").is_file()


def test_a_report_is_json_and_no_draft_stays() -> None:
    with made("a") as folder:
        folder.write_report({"images": 3, "stages": {"read": 0.5}})
        names = sorted(path.name for path in folder.path.iterdir())
    assert json.loads((folder.path / "report.json").read_text())["stages"] == {"read": 0.5}
    assert names == ["rank0.log", "report.json"]


def test_a_file_is_replaced_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with made("a") as folder:
        folder.write("plan.txt", "before")

        def full(self: Path, *_: object, **__: object) -> int:
            self.write_bytes(b"aft")
            raise OSError("no space")

        monkeypatch.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match="no space"):
            folder.write("plan.txt", "after")
        assert (folder.path / "plan.txt").read_bytes() == b"before"


def test_what_an_unfinished_run_left_stays_until_one_begins_anew() -> None:
    with made("a") as folder:
        LOGGER.info("before")
        folder.write("state.json", "{}", durable=True)
        for number in range(3):
            folder.write_part({"part": number})
        folder.write("bad_samples.jsonl", "{}\n")
    with made("a") as folder:
        LOGGER.info("after")
        assert folder.state.read_text() == "{}"
        parts = sorted(folder.path.glob("part.*.json"))
        assert [json.loads(path.read_text())["part"] for path in parts] == [0, 1, 2]
        lines = (folder.path / "rank0.log").read_text().splitlines()
        assert [line.rpartition(" ")[2] for line in lines] == ["before", "after"]
        folder.begin_anew()
        LOGGER.info("anew")
        assert [path.name for path in folder.path.iterdir()] == ["rank0.log"]
        assert (folder.path / "rank0.log").read_text().count("\n") == 1


def test_a_finished_run_has_no_state() -> None:
    with made("a") as folder:
        folder.write("state.json", "{}")
        folder.write_report({})
        assert not folder.state.exists()


@pytest.mark.parametrize("name", ["../a", "/tmp/a", "a/../../b", ".", ""])
def test_names_that_lead_out_of_runs_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="must name a folder inside runs/"):
        RunFolder.make(name, Rank(0, 1))


def test_a_name_that_is_a_file_is_refused_by_name() -> None:
    Path("runs").mkdir()
    Path("runs/a").write_text("")
    with pytest.raises(ConfigError, match=r"name: runs/a cannot be made a run folder"):
        RunFolder.make("a", Rank(0, 1))


def test_a_run_may_change_the_current_folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Path.cwd()
    with made("a") as folder:
        monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
        folder.write_report({})
    assert (before / "runs/a/report.json").is_file()


def test_other_ranks_keep_their_log_and_state_beside_rank_0s() -> None:
    with made("a") as first:
        first.write("state.json", "0")
        second = RunFolder.enter(first.path, Rank(1, 2))
        second.write(second.state.name, "1")
        assert (first.state.name, second.state.name) == ("state.json", "state.rank1.json")
        LOGGER.info("both")
        second.close()
        assert "rank 1 INFO dtsflow: both" in (first.path / "rank1.log").read_text()
        first.write_report({})
        names = sorted(path.name for path in first.path.iterdir())
    assert names == ["rank0.log", "rank1.log", "report.json"]


def test_beginning_anew_forgets_what_all_ranks_left() -> None:
    left = ["state.json", "state.rank3.json", "bad_samples.jsonl", "bad_samples.rank3.jsonl"]
    with made("a") as folder:
        for name in [*left, "part.1.json", "config.yaml"]:
            folder.write(name, "")
        folder.begin_anew()
        assert {path.name for path in folder.path.iterdir()} == {"config.yaml", "rank0.log"}
        LOGGER.info("before")
        RunFolder.enter(folder.path, Rank(1, 2)).close()
        RunFolder.enter(folder.path, Rank(1, 2), anew=True).close()
        assert (folder.path / "rank1.log").read_text() == ""


def test_a_rank_that_cannot_enter_says_which() -> None:
    with pytest.raises(ConfigError, match="is no folder for rank 2"):
        RunFolder.enter("nowhere", Rank(2, 3))
