"""All that one process does works where mpi4py is not installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dtsflow.testing import jpeg, write_block_volume

# What Python does where a package is absent: an entry of None is an ImportError.
HIDING = """
import sys
sys.modules["mpi4py"] = None
from dtsflow.cli import entry
sys.exit(entry.main())
"""


def dtsflow(*words: str) -> "subprocess.CompletedProcess[str]":
    environ = {name: value for name, value in os.environ.items() if "SIZE" not in name}
    command = [sys.executable, "-c", HIDING, *words]
    return subprocess.run(
        command, env=environ, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def words(workdir: Path) -> list[str]:
    path = write_block_volume(workdir / "x.dts", [[(jpeg(seed=i), i) for i in range(4)]])
    size = ("po.operations[0].size=16", "batch_size=4", "workers=1", "tail=pad", "epochs=1")
    return ["+experiment=imagenet_train", f"volume.path={path}", *size, "consumer=digest"]


@pytest.mark.parametrize("ranks", ["auto", "single"])
def test_a_run_of_one_process_needs_no_mpi4py(ranks: str, words: list[str]) -> None:
    done = dtsflow(*words, "name=it", f"ranks={ranks}")
    assert done.returncode == 0, done.stderr
    assert Path("runs/it/report.json").exists()


def test_a_pack_its_check_and_a_plan_need_no_mpi4py(workdir: Path, words: list[str]) -> None:
    images = workdir / "images" / "a"
    images.mkdir(parents=True)
    (images / "0.jpg").write_bytes(jpeg())
    for command in (
        ["pack", "images", "packed", "--split=train"],
        ["verify", "packed"],
        ["plan", *words],
        ["doctor"],
    ):
        done = dtsflow(*command)
        assert done.returncode == 0, done.stdout + done.stderr


def test_ranks_of_mpi_name_the_extra_to_install(words: list[str]) -> None:
    done = dtsflow(*words, "name=it", "ranks=mpi")
    assert done.returncode == 1
    assert "ranks=mpi needs mpi4py and an MPI library" in done.stderr
    assert "dtsflow[mpi]" in done.stderr
    assert not Path("runs/it").exists()
