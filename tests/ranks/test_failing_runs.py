"""Failures of one rank in the midst of a run, and many starts in one run folder.

DTSFLOW_TIMES=50 in the environment tries each that often; it takes -o
faulthandler_timeout=1800. With -o junit_family=xunit1 --junitxml=FILE, FILE has the
seconds from each failure to the end of all ranks.
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dtsflow.cli.run import main
from dtsflow.testing import jpeg, write_block_volume

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")

PROGRAM = str(Path(__file__).with_name("failing.py"))
TIMES = range(int(os.environ.get("DTSFLOW_TIMES", "1")))
END_S = 20.0  # twice what is promised, for a busy machine
Torchrun = Callable[..., tuple[list[int], str]]
Mpiexec = Callable[..., tuple[int, str]]
Record = Callable[[str, object], None]

IMAGES = [(jpeg(20 + i % 7, 24, seed=i), i % 4) for i in range(50)]
WAYS = {
    "raise": "ZeroDivisionError: the loss is not a number",
    "stall": "The workers stalled",
    "SIGKILL": "it ended without a word",
    "SIGTERM": "It was told to stop, and other ranks were not",
}


@pytest.fixture
def words(workdir: Path) -> list[str]:
    """A run of epochs of 9 steps, in blocks of 9 images."""
    blocks = [IMAGES[start : start + 9] for start in range(0, 50, 9)]
    path = write_block_volume(workdir / "x.dts", blocks)
    return [
        "+experiment=imagenet_train",
        f"volume.path={path}",
        "po.operations[0].size=16",
        *("batch_size=6", "lanes=6", "tail=pad", "workers=1", "name=it", "epochs=1"),
        "consumer=digest",
    ]


def long(way: str) -> list[str]:
    """A run that only a failure ends; a batch may take long on a busy machine."""
    return ["epochs=1000000", f"station.timeout_s={3 if way == 'stall' else 300}"]


def residue(folder: Path) -> set[str]:
    """Processes that are at work in the folder, and what ranks meet in."""
    meetings = {path.name for path in folder.glob("runs/.it*")}
    return meetings | {f"process {number}" for number in at_work(folder)}


def at_work(folder: Path) -> list[int]:
    """The processes whose current folder it is, but this one."""
    found = []
    for cwd in Path("/proc").glob("[0-9]*/cwd"):
        number = int(cwd.parent.name)
        try:
            is_there = cwd.readlink() == folder
        except OSError:  # it has just ended, or is another user's
            continue
        if is_there and number != os.getpid():
            found.append(number)
    return found


def ended(folder: Path, said: str, record: Record) -> None:
    """Check how long the ranks took to end, and that nothing of them is left."""
    assert (folder / "began").exists(), said
    took = time.time() - float((folder / "began").read_text())
    record("seconds", round(took, 2))
    assert took < END_S
    assert residue(folder) == set()
    assert not (folder / "runs/it/report.json").exists()


@pytest.mark.parametrize("_time", TIMES)
@pytest.mark.parametrize("way", WAYS)
def test_a_run_of_torchrun_of_which_a_rank_fails_ends_and_may_begin_again(
    way: str,
    _time: int,
    words: list[str],
    torchrun: Torchrun,
    workdir: Path,
    record_property: Record,
) -> None:
    statuses, said = torchrun(3, [PROGRAM, way, *words, *long(way)], workdir)
    ended(workdir, said, record_property)
    assert all(statuses), said
    assert said.count(WAYS[way]) == said.count("rank 1 of 3") == 1
    if way == "SIGKILL":  # which gives a rank no chance to tidy up
        statuses, said = torchrun(3, ["-m", "dtsflow", *words], workdir)
        assert statuses == [0] * 3, said
        assert residue(workdir) == set()


@pytest.mark.mpi
@pytest.mark.parametrize("_time", TIMES)
@pytest.mark.parametrize("way", WAYS)
def test_a_run_of_mpi_of_which_a_rank_fails_ends_and_may_begin_again(
    way: str,
    _time: int,
    words: list[str],
    mpiexec: Mpiexec,
    workdir: Path,
    record_property: Record,
) -> None:
    status, said = mpiexec(2, [PROGRAM, way, *words, *long(way)], workdir)
    ended(workdir, said, record_property)
    assert status != 0
    # Of a killed rank mpiexec tells, in words of its own.
    assert way == "SIGKILL" or said.count(WAYS[way]) == said.count("rank 1 of 2") == 1
    if way == "SIGKILL":
        status, said = mpiexec(2, ["-m", "dtsflow", *words], workdir)
        assert status == 0, said
        assert residue(workdir) == set()


@pytest.mark.mpi
def test_starts_with_one_run_folder_do_not_race(
    words: list[str], mpiexec: Mpiexec, workdir: Path
) -> None:
    words = [*words, "lanes=12", "batch_size=12"]
    assert main([*words, "name=alone"]) == 0
    for number in TIMES:
        status, said = mpiexec(4, ["-m", "dtsflow", *words], workdir)
        assert status == 0, said
        assert len(list(Path("runs").glob("it*"))) == number + 1
        assert report("it")["digest"]["sequence"] == report("alone")["digest"]["sequence"]
        assert [row["rank"] for row in report("it")["ranks"]] == [0, 1, 2, 3]
        assert all(Path(f"runs/it/rank{rank}.log").exists() for rank in range(4))
        assert residue(workdir) == set()


def report(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("runs", name, "report.json").read_text())
    return found
