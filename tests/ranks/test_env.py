from pathlib import Path

import pytest

from dtsflow.errors import RanksError
from dtsflow.ranks import Env
from dtsflow.ranks.env import launch_name

HERE = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"RANK": None}, "needs RANK in the environment"),
        ({"RANK": "2"}, "RANK is 2 and WORLD_SIZE 2"),
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE is 'two'"),
        ({"LOCAL_RANK": "-1"}, "LOCAL_RANK is '-1'"),
        ({"MASTER_PORT": None}, "needs TORCHELASTIC_RUN_ID, or MASTER_ADDR and MASTER_PORT"),
    ],
)
def test_an_environment_that_makes_no_sense_is_refused(
    change: dict[str, str | None], message: str, tmp_path: Path
) -> None:
    environ = {name: value for name, value in {**HERE, **change}.items() if value is not None}
    with pytest.raises(RanksError, match=message):
        Env().join(tmp_path / "it", environ)
    assert not list(tmp_path.iterdir())


def test_several_ranks_need_a_named_run(tmp_path: Path) -> None:
    with pytest.raises(RanksError, match="2 ranks need one run folder: give the run a name"):
        Env().join(None, HERE)
    assert Env().join(None, {"RANK": "0", "WORLD_SIZE": "1"}).rank.size == 1
    assert not list(tmp_path.iterdir())


def test_a_start_is_told_from_others_by_torchruns_name_and_how_often_it_restarted() -> None:
    assert launch_name(HERE) == "a:1 0"
    assert launch_name({**HERE, "TORCHELASTIC_RUN_ID": "none"}) == "a:1 0"
    named = {**HERE, "TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_RESTART_COUNT": "2"}
    assert launch_name(named) == "x 2"


def test_a_rank_that_does_not_come_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(RanksError, match="waited in vain for rank 1"):
        Env(timeout_s=0.05).join(tmp_path / "it", HERE)
    assert not list(tmp_path.iterdir())
