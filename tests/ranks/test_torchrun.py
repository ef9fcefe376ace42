"""The real torchrun; other tests only set the variables that it sets."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from dtsflow.cli.run import main
from dtsflow.testing import jpeg, write_block_volume

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="no torch (the extra 'torch')")

JOINED = str(Path(__file__).with_name("joined.py"))
RESTARTING = str(Path(__file__).with_name("restarting.py"))
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
ENDS_S = 50.0
IMAGES = [(jpeg(20 + i % 7, 24, seed=i), i % 4) for i in range(30)]


@pytest.fixture
def words(workdir: Path) -> list[str]:
    """A run of 2 epochs of 8 steps."""
    path = write_block_volume(workdir / "x.dts", [IMAGES[:9], IMAGES[9:18], IMAGES[18:]])
    return [
        "+experiment=imagenet_train",
        f"volume.path={path}",
        "po.operations[0].size=16",
        *("batch_size=4", "lanes=4", "tail=pad", "epochs=2", "workers=1"),
        *("consumer=digest", "name=it", "resume=auto"),
    ]


def start(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*TORCHRUN, *words],
        env={name: value for name, value in os.environ.items() if "SIZE" not in name},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(*started: "subprocess.Popen[str]") -> str:
    """What they said, once all have ended well."""
    try:
        said = [one.communicate(timeout=ENDS_S)[0] for one in started]
    finally:
        for one in started:
            one.kill()
    assert [one.returncode for one in started] == [0] * len(started), "".join(said)
    return "".join(said)


def report(name: str) -> Any:
    return json.loads(Path("runs", name, "report.json").read_text())


def alone(words: Sequence[str]) -> str:
    """The digest of the run in this process."""
    assert main([*words, "name=alone"]) == 0
    return str(report("alone")["digest"]["sequence"])


def test_a_run_under_torchrun_delivers_what_one_process_does(words: list[str]) -> None:
    finished(start("--standalone", "--nproc-per-node=2", "-m", "dtsflow", *words))
    found = report("it")
    assert found["digest"]["sequence"] == alone(words)
    assert [row["rank"] for row in found["ranks"]] == [0, 1]
    assert {path.name for path in Path("runs").iterdir()} == {".scans", "alone", "it"}


def test_ranks_of_two_torchruns_are_on_two_nodes_with_memory_each(workdir: Path) -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    meeting = ("--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}", "--rdzv-id=it")
    nodes = ("--nnodes=2", "--nproc-per-node=2", *meeting, JOINED, "auto", "talk")
    finished(start(*nodes), start(*nodes))
    found = [json.loads((workdir / f"found.{rank}").read_text()) for rank in range(4)]
    assert [one["rank"] for one in found] == [[i, 4, i // 2, i % 2, 2] for i in range(4)]
    assert [one["memory"] for one in found] == [[1, 2], [1, 2], [3, 4], [3, 4]]
    assert not list((workdir / "runs").iterdir())


def test_a_run_that_torchrun_starts_again_goes_on_from_its_state(words: list[str]) -> None:
    again = ("--standalone", "--nproc-per-node=2", "--max-restarts=1")
    said = finished(start(*again, RESTARTING, *words))
    assert said.count("ZeroDivisionError: the loss is not a number") == 1
    found = report("it")
    assert found["resumed_from"] == {"phase": "train", "epoch": 1, "step": 0}
    alone(words)
    _, second = report("alone")["digest"]["epochs"]
    assert found["digest"]["sequence"] == second["sequence"]
