import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

import dtsflow
from dtsflow.errors import ConfigError, DtsflowError, MemoryPlanError
from dtsflow.testing import jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import Kind

LOGGER = logging.getLogger("dtsflow")


@pytest.fixture
def digits(workdir: Path) -> Path:
    return write_small_set(workdir / "mnist_test.dts", Kind.MNIST, 12)


def test_overrides_and_trees_are_laid_over_in_turn(digits: Path) -> None:
    trees: list[dict[str, Any]] = [
        {"volume": {"path": "nowhere"}, "seed": 1, "station": {"poison": True}},
        {"volume": {"path": str(digits)}, "seed": 2, "station": {"timeout_s": 9}},
    ]
    with dtsflow.open("po=mnist", trees[0], "batch_size=6", trees[1]) as run:
        pipeline = run.plan.pipeline
        assert pipeline.seed == 2
        assert pipeline.phases["train"].batch_size == 6
        assert pipeline.station.poison
        assert pipeline.station.timeout_s == 9
        assert len(run.epoch(0)) == 2
    assert trees[0]["volume"] == {"path": "nowhere"}


def test_without_a_name_nothing_is_written(digits: Path) -> None:
    with dtsflow.open("po=mnist", f"volume.path={digits}") as run:
        assert run.folder is None
        list(run.epoch(0))
    assert sorted(path.name for path in Path.cwd().iterdir()) == [digits.name]


def test_a_name_makes_a_folder_whose_config_opens_the_same_run(digits: Path) -> None:
    with dtsflow.open("po=mnist", f"volume.path={digits}", "name=a/b") as run:
        first = run.plan.digest()
        list(run.epoch(0))
    folder = Path("runs/a/b")
    assert {path.name for path in folder.iterdir()} == {
        "config.yaml", "plan.txt", "report.json", "rank0.log",
    }  # fmt: skip
    stored = OmegaConf.to_container(OmegaConf.load(folder / "config.yaml"))
    assert isinstance(stored, dict)
    with dtsflow.open({**{str(k): v for k, v in stored.items()}, "name": None}) as run:
        assert run.plan.digest() == first
        assert first in (folder / "plan.txt").read_text()


def test_a_folder_of_configs_is_searched_first(digits: Path, tmp_path_factory: Any) -> None:
    extra = tmp_path_factory.mktemp("extra")
    (extra / "experiment").mkdir()
    text = f"# @package _global_\nseed: 77\nvolume:\n  path: {digits}\n"
    (extra / "experiment" / "ours.yaml").write_text(text)
    for given in (extra, str(extra)):
        with dtsflow.open("+experiment=ours", config_dir=given) as run:
            assert run.plan.phases["train"].order.seed == 77


def refuse_memory(digits: Path) -> None:
    dtsflow.open(f"volume.path={digits}", "name=a", "memory.limit=1")


def refuse_volume(digits: Path) -> None:
    dtsflow.open(f"volume.path={digits.parent / 'none.dts'}", "name=a")


def refuse_name(digits: Path) -> None:
    dtsflow.open(f"volume.path={digits}", "name=../a")


@pytest.mark.parametrize("refused", [refuse_memory, refuse_volume, refuse_name])
def test_a_run_that_does_not_open_leaves_no_log_open(
    digits: Path, refused: Callable[[Path], None]
) -> None:
    before = list(LOGGER.handlers)
    with pytest.raises(DtsflowError):
        refused(digits)
    assert LOGGER.handlers == before
    assert not list(Path.cwd().rglob("report.json"))


def test_a_plan_that_is_too_big_keeps_its_folder_for_its_plan(digits: Path) -> None:
    with pytest.raises(MemoryPlanError):
        refuse_memory(digits)
    assert "allowed (memory.limit)" in Path("runs/a/plan.txt").read_text()


def test_a_tree_that_makes_no_sense_is_refused_by_its_path(digits: Path) -> None:
    with pytest.raises(ConfigError, match=r"station\.timeout: .*Did you mean 'timeout_s'"):
        dtsflow.open(f"volume.path={digits}", {"station": {"timeout": 3}})


APP = """
import hydra, sys
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf
import dtsflow

@hydra.main(version_base=None, config_path="conf", config_name="app")
def main(cfg):
    data = OmegaConf.to_container(cfg.data)
    with dtsflow.open("+experiment=image_folder", data) as run:
        for batch in run.epoch(0):
            print("batch", batch.images.shape, int(batch.valid.sum()), HydraConfig.get().job.name)

main()
"""


def test_a_hydra_app_streams_from_its_own_configuration(workdir: Path) -> None:
    path = write_block_volume(workdir / "x.dts", [[(jpeg(seed=i), i) for i in range(5)]])
    (workdir / "app.py").write_text(APP)
    (workdir / "conf").mkdir()
    # The app's conf/ has names of ours in it, which must not be taken for our own.
    (workdir / "conf" / "app.yaml").write_text(
        f"data:\n  volume: {{path: {path}}}\n  batch_size: 3\n  po: none\nseed: 3\n"
    )
    words = ["app.py", "data.batch_size=4", "data.po=imagenet_val", "hydra.run.dir=out"]
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, cwd=workdir
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("batch")] == [
        "batch (4, 224, 224, 3) 4 app",
        "batch (4, 224, 224, 3) 1 app",
    ]
