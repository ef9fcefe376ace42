"""Stands in for Slurm's commands, with two nodes on this machine: `python slurm.py …`.

`srun [--OPTION=VALUE…] WORD…` starts the tasks: through mpiexec where --mpi is given,
else by itself. It passes signals on to them, and ends with the largest status, as
srun does. `scontrol show hostnames` names this machine; any other `scontrol` is noted.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from types import FrameType

from dtsflow.ranks.file_rendezvous import write_note

TASKS = Path("tasks")  # a note of each task's process
NOTED = Path("scontrol.txt")


def srun(words: list[str]) -> int:
    """Start the tasks and wait for them."""
    options = list(takewhile(lambda word: word.startswith("--"), words))
    size = int(os.environ["SLURM_NTASKS"])
    shutil.rmtree(TASKS, ignore_errors=True)
    TASKS.mkdir()
    task = [sys.executable, __file__, "task", *words[len(options) :]]
    environ = {**os.environ, "SLURM_STEP_NUM_TASKS": str(size)}
    if any(option.startswith("--mpi=") for option in options):
        environ["MPIR_CVAR_ODD_EVEN_CLIQUES"] = "1"
        mpiexec = [os.environ["MPIEXEC"], "-n", str(size), *task]
        started = [subprocess.Popen(mpiexec, env=environ)]
    else:
        numbers = [{"SLURM_PROCID": str(number)} for number in range(size)]
        started = [subprocess.Popen(task, env={**environ, **number}) for number in numbers]
    for passed_on in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(passed_on, tell_all)
    statuses = [one.wait() for one in started]
    return max(128 - status if status < 0 else status for status in statuses)


def tell_all(number: int, _frame: FrameType | None) -> None:
    """Pass a signal on to every task."""
    for note in TASKS.glob("[0-9]*"):
        os.kill(json.loads(note.read_text())["process"], number)


def task(words: list[str]) -> int:
    """Become the words, once it is known which process they are."""
    number = os.environ.get("PMI_RANK") or os.environ["SLURM_PROCID"]
    write_note(TASKS / number, {"process": os.getpid()})
    os.execvp(words[0], words)  # it becomes the words


def scontrol(words: list[str]) -> int:
    """Name the nodes, or note what is asked for."""
    if words[:2] == ["show", "hostnames"]:
        sys.stdout.write("localhost\nlocalhost\n")
    else:
        with NOTED.open("a", encoding="utf-8") as file:
            file.write(" ".join(words) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit({"srun": srun, "task": task, "scontrol": scontrol}[sys.argv[1]](sys.argv[2:]))
