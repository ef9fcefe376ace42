import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dtsflow
from dtsflow.cli.run import main
from dtsflow.consumer.digest import add_sequences
from dtsflow.testing import jpeg, write_block_volume

PROGRAM = str(Path(__file__).with_name("running.py"))
Torchrun = Callable[..., tuple[list[int], str]]
Mpiexec = Callable[..., tuple[int, str]]

IMAGES = [(jpeg(20 + i % 7, 24, seed=i), i % 4) for i in range(50)]


@pytest.fixture
def words(workdir: Path) -> list[str]:
    """A run of 2 epochs of 7 steps, in blocks of 9 images."""
    blocks = [IMAGES[start : start + 9] for start in range(0, 50, 9)]
    path = write_block_volume(workdir / "x.dts", blocks)
    return [
        "+experiment=imagenet_train",
        f"volume.path={path}",
        "po.operations[0].size=16",
        "batch_size=8",
        "lanes=4",
        "tail=pad",
        "epochs=2",
        "workers=1",
        f"reader.window_bytes={8 << 24}",
        "consumer=digest",
    ]


def report(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("runs", name, "report.json").read_text())
    return found


def sequence(words: list[str]) -> str:
    """That of one rank, in this process."""
    assert main([*words, "name=alone"]) == 0
    return str(report("alone")["digest"]["sequence"])


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("size", "more", "variables"),
    [
        (4, "reader=resident", {}),
        (2, "reader=streaming", {}),
        (4, "reader=resident", {"MPIR_CVAR_ODD_EVEN_CLIQUES": "1"}),
        (2, "reader=resident", {"MPIR_CVAR_NOLOCAL": "1"}),
    ],
    ids=["one node", "streaming", "two nodes", "a node each"],
)
def test_ranks_of_mpi_deliver_what_one_does(
    size: int,
    more: str,
    variables: dict[str, str],
    words: list[str],
    mpiexec: Mpiexec,
    workdir: Path,
) -> None:
    command = ["-m", "dtsflow", *words, "name=it", more]
    status, said = mpiexec(size, command, workdir, **variables)
    assert status == 0, said
    found = report("it")
    assert found["digest"]["sequence"] == sequence(words)
    assert found["digest"]["samples"] is None
    assert found["images"] == sum(row["images"] for row in found["ranks"]) == 100
    assert [row["rank"] for row in found["ranks"]] == list(range(size))
    assert said.count("epoch 1: 7/7") == 1
    logs = [Path(f"runs/it/rank{rank}.log").read_text() for rank in range(size)]
    assert all(f"rank {rank} INFO" in text for rank, text in enumerate(logs))
    assert not [path.name for path in Path("runs/it").glob("state*")]


@pytest.mark.parametrize(("size", "more"), [(2, "reader=streaming"), (8, "reader=resident")])
def test_ranks_of_torchrun_deliver_what_one_does(
    size: int, more: str, words: list[str], torchrun: Torchrun, workdir: Path
) -> None:
    words.append("lanes=8")
    statuses, said = torchrun(size, ["-m", "dtsflow", *words, "name=it", more], workdir)
    assert statuses == [0] * size, said
    assert report("it")["digest"]["sequence"] == sequence(words)
    assert {path.name for path in Path("runs").iterdir()} == {".scans", "alone", "it"}


def test_saved_by_4_ranks_a_run_goes_on_with_2(
    words: list[str], torchrun: Torchrun, workdir: Path
) -> None:
    command = [PROGRAM, "stop", "", *words, "name=it", "resume=auto"]
    statuses, said = torchrun(4, command, workdir)
    assert statuses == [0] * 4, said
    assert json.loads(Path("runs/it/state.json").read_text())["step"] == 6
    assert not list(Path("runs/it").glob("state.rank*"))
    command[1] = "run"
    statuses, said = torchrun(2, command, workdir)
    assert statuses == [0, 0], said
    found, part = report("it"), json.loads(Path("runs/it/part.1.json").read_text())
    assert found["resumed_from"] == {"phase": "train", "epoch": 0, "step": 6}
    sequences = [one["digest"]["sequence"] for one in (part, found)]
    assert add_sequences(sequences) == sequence(words)


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ("seed=4", "seed: 0 on rank 0, 4 on rank 1"),
        ("max_steps=3", "max_steps: null on rank 0, 3 on rank 1"),
        ("volume.path=other.dts", "data: "),
        ("volume.path=nowhere.dts", "rank 1: no volume found: looked for nowhere.dts"),
        ("batch_size=many", "rank 1: batch_size: Input should be a valid integer"),
    ],
)
def test_ranks_that_are_about_to_differ_are_refused_before_there_is_a_folder(
    odd: str, said: str, words: list[str], torchrun: Torchrun, workdir: Path
) -> None:
    write_block_volume(workdir / "other.dts", [IMAGES[:9]])
    statuses, heard = torchrun(2, [PROGRAM, "run", odd, *words, "name=it"], workdir)
    assert statuses == [1, 1], heard
    assert said in heard
    assert {path.name for path in Path("runs").iterdir()} <= {".scans"}


def test_an_error_in_the_loop_of_one_rank_ends_all_with_its_traceback_once(
    words: list[str], torchrun: Torchrun, workdir: Path
) -> None:
    more = ["lanes=6", "batch_size=12", "epochs=1000000", "name=it"]
    statuses, said = torchrun(3, [PROGRAM, "raise", "", *words, *more], workdir)
    assert statuses == [1, 1, 1]
    assert said.count("ZeroDivisionError: the loss is not a number") == 1
    assert "rank 1 of 3: Traceback" in said
    assert Path("runs/it/state.rank1.json").exists()


def test_several_ranks_without_a_name_are_refused(
    words: list[str], torchrun: Torchrun, workdir: Path
) -> None:
    statuses, said = torchrun(2, [PROGRAM, "run", "", *words], workdir)
    assert statuses == [1, 1]
    assert "2 ranks need one run folder: give the run a name" in said
    assert not Path("runs").exists()


def test_a_run_goes_on_where_the_rank_was_that_had_come_least_far(words: list[str]) -> None:
    with dtsflow.open(*words, "name=it") as run:
        for _ in run.epoch(0, steps=4):
            pass
        run.stop()
        for _ in run:
            pass
    state = json.loads(Path("runs/it/state.json").read_text())
    Path("runs/it/state.rank1.json").write_text(json.dumps({**state, "step": state["step"] - 1}))
    with dtsflow.open(*words, "name=it", "resume=auto") as run:
        assert run.start.step == state["step"] - 1
        assert not Path("runs/it/state.rank1.json").exists()
        assert json.loads(Path("runs/it/state.json").read_text())["step"] == state["step"] - 1
