import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import pytest

from dtsflow.cli.run import main
from dtsflow.consumer.digest import add_sequences
from dtsflow.testing import jpeg, write_block_volume

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Slurm is for Linux")

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "slurm"
HOLDING = str(HERE / "holding.py")
READY = "holding a batch\n"
RANKS = 2
MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
IMAGES = [(jpeg(20, 24, seed=i), i % 4) for i in range(20)]


@pytest.fixture
def words(workdir: Path) -> list[str]:
    """A run of 2 epochs of 5 steps."""
    path = write_block_volume(workdir / "x.dts", [IMAGES[:9], IMAGES[9:]])
    return [
        "+experiment=imagenet_train",
        f"volume.path={path}",
        "po.operations[0].size=16",
        *("batch_size=4", "lanes=2", "tail=pad", "epochs=2", "workers=1"),
    ]


@pytest.fixture
def commands(workdir: Path) -> Path:
    """A folder of stand-ins for the commands of the files."""
    folder = workdir / "bin"
    folder.mkdir()
    for name, means in {
        "srun": [str(HERE / "slurm.py"), "srun"],
        "scontrol": [str(HERE / "slurm.py"), "scontrol"],
        "dtsflow": [HOLDING],
        "torchrun": ["-m", "torch.distributed.run"],
    }.items():
        command = folder / name
        command.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, *means])} "$@"\n')
        command.chmod(0o755)
    return folder


@contextmanager
def submitted(
    file: Path, words: Sequence[str], commands: Path, nodes: int, *, restarts: int
) -> Iterator["subprocess.Popen[str]"]:
    """The job at work, as Slurm would start it after so many restarts: two ranks."""
    environ = {
        **{name: value for name, value in os.environ.items() if "SIZE" not in name},
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "MPIEXEC": str(MPIEXEC),
        "RANKS": str(RANKS // nodes),
        "SLURM_JOB_ID": "71",
        "SLURM_RESTART_COUNT": str(restarts),
        "SLURM_JOB_NODELIST": "node[1-2]",
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_NTASKS": str(nodes),
        "SLURM_CPUS_PER_TASK": "1",
    }
    with subprocess.Popen(
        ["bash", str(file), *words],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as job:
        try:
            yield job
        finally:
            job.kill()


def report(path: str) -> Any:
    return json.loads(Path("runs", path).read_text())


def run_alone(words: list[str]) -> str:
    """The digest of the run in this process."""
    assert main([*words, "name=alone", "consumer=digest"]) == 0
    return str(report("alone/report.json")["digest"]["sequence"])


def wait_for_all(said: IO[str]) -> str:
    """Read on until every rank holds its batch; returns what was said."""
    told = ""
    while told.count(READY) < RANKS:
        line = said.readline()
        assert line, told
        told += line
    return told


@pytest.mark.parametrize("file", sorted(DOCS.glob("*.sbatch")), ids=lambda file: file.stem)
def test_a_slurm_file_is_one_that_bash_can_read(file: Path) -> None:
    done = subprocess.run(["bash", "-n", file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.mpi
@pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec (the extra 'mpi-wheel')")
def test_a_job_of_mpi_that_slurm_stops_is_queued_again_and_goes_on(
    words: list[str], commands: Path
) -> None:
    stop_and_go_on(DOCS / "mpi.sbatch", words, commands, nodes=2)


@pytest.mark.skipif(find_spec("torch") is None, reason="there is no torch (the extra 'torch')")
def test_a_job_of_torchrun_that_slurm_stops_is_queued_again_and_goes_on(
    words: list[str], commands: Path, workdir: Path
) -> None:
    script = (DOCS / "torchrun.sbatch").read_text()
    assert script.count(" -m dtsflow ") == 1
    file = workdir / "job.sbatch"
    file.write_text(script.replace(" -m dtsflow ", f" {shlex.quote(HOLDING)} "))
    stop_and_go_on(file, words, commands, nodes=1)


def stop_and_go_on(file: Path, words: list[str], commands: Path, *, nodes: int) -> None:
    more = [*words, "name=it", "consumer=digest"]
    with submitted(file, more, commands, nodes, restarts=0) as job:
        assert job.stdout is not None
        told = wait_for_all(job.stdout)
        job.send_signal(signal.SIGUSR1)
        said = told + job.stdout.read()
        assert job.wait() != 0
    assert Path("scontrol.txt").read_text() == "requeue 71\n"
    assert report("it/state.json")["step"] == 4, said
    assert not Path("runs/it/report.json").exists()

    with submitted(file, more, commands, nodes, restarts=1) as job:
        assert job.stdout is not None
        said = job.stdout.read()
        assert job.wait() == 0, said
    assert "going on at epoch 1, step 4 of 5" in said
    assert Path("scontrol.txt").read_text() == "requeue 71\n"
    parts = [report(f"it/{name}.json") for name in ("part.1", "report")]
    sequences = [part["digest"]["sequence"] for part in parts]
    assert len(parts[1]["ranks"]) == RANKS
    assert add_sequences(sequences) == run_alone(words)
