import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = str(Path(__file__).with_name("joined.py"))
Torchrun = Callable[..., tuple[list[int], str]]
Mpiexec = Callable[..., tuple[int, str]]


def talk_env(
    torchrun: Torchrun, size: int, folder: Path, each: list[dict[str, str]]
) -> list[dict[str, Any]]:
    statuses, said = torchrun(size, [PROGRAM, "env", "talk"], folder, each)
    assert statuses == [0] * size, said
    assert not list((folder / "runs").iterdir())
    return [json.loads((folder / f"found.{rank}").read_text()) for rank in range(size)]


def test_ranks_of_one_node_talk_and_share_memory(torchrun: Torchrun, tmp_path: Path) -> None:
    found = talk_env(torchrun, 3, tmp_path, [{"LOCAL_RANK": str(i)} for i in range(3)])
    assert [one["rank"] for one in found] == [[i, 3, 0, i, 3] for i in range(3)]
    assert all(one["texts"] == ["", "é1", "é2é2"] for one in found)
    assert all(one["word"] == "of 0" for one in found)
    assert all(one["memory"] == [1, 2, 3] for one in found)
    assert {one["sum"] for one in found} == {6 << 20}


def test_two_nodes_have_memory_each(torchrun: Torchrun, tmp_path: Path) -> None:
    found = talk_env(torchrun, 4, tmp_path, [{"GROUP_RANK": str(i // 2)} for i in range(4)])
    assert [one["rank"][2:] for one in found] == [[i // 2, i % 2, 2] for i in range(4)]
    assert [one["memory"] for one in found] == [[1, 2], [1, 2], [3, 4], [3, 4]]


@pytest.mark.parametrize("deed", ["raise", "stall", "SIGKILL", "SIGTERM"])
def test_one_rank_that_fails_ends_all_and_is_named_once(
    deed: str, torchrun: Torchrun, tmp_path: Path
) -> None:
    began = time.monotonic()
    statuses, said = torchrun(3, [PROGRAM, "env", deed], tmp_path)
    assert time.monotonic() - began < 20  # the others would wait 50 s
    own = {"raise": 1, "stall": 1, "SIGKILL": -9, "SIGTERM": -15}[deed]
    assert statuses == [1, own, 1]
    reason = {"raise": "ZeroDivisionError: it broke", "stall": "The workers stalled."}
    assert said.count(reason.get(deed, "it ended without a word")) == 1
    assert said.count("rank 1 of 3") == 1
    assert not list((tmp_path / "runs").iterdir())


def test_ranks_that_differ_all_say_so_and_leave(torchrun: Torchrun, tmp_path: Path) -> None:
    statuses, said = torchrun(3, [PROGRAM, "env", "differ"], tmp_path)
    assert statuses == [1, 1, 1]
    assert said.count("seed: 3 on ranks 0 and 2, 4 on rank 1") == 3
    assert not list((tmp_path / "runs").iterdir())


def test_what_killed_ranks_left_is_cleared_by_the_next_start(
    torchrun: Torchrun, tmp_path: Path
) -> None:
    left = tmp_path / "runs" / ".it.ranks-0123456789ab"
    left.mkdir(parents=True)
    (left / "sign.0").touch()
    (left / "all").write_text("{}")
    talk_env(torchrun, 2, tmp_path, [{}, {}])
    assert not left.exists()


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("more", "nodes"),
    [
        ({}, [[0, 1, 2, 3]]),
        ({"MPIR_CVAR_NOLOCAL": "1"}, [[0], [1], [2], [3]]),
        ({"MPIR_CVAR_ODD_EVEN_CLIQUES": "1"}, [[0, 2], [1, 3]]),
    ],
    ids=["one node", "a node each", "two nodes"],
)
def test_ranks_of_mpi_talk_and_share_memory_on_each_node(
    more: dict[str, str], nodes: list[list[int]], mpiexec: Mpiexec, tmp_path: Path
) -> None:
    status, said = mpiexec(4, [PROGRAM, "auto", "talk"], tmp_path, **more)
    assert status == 0, said
    found = [json.loads((tmp_path / f"found.{rank}").read_text()) for rank in range(4)]
    for number, node in enumerate(nodes):
        for local, rank in enumerate(node):
            assert found[rank]["rank"] == [rank, 4, number, local, len(node)]
            assert found[rank]["peers"] == node
            assert found[rank]["memory"] == [1 + peer for peer in node]
            assert found[rank]["sum"] == sum(1 + peer for peer in node) * (3 << 20) // len(node)
    assert all(one["texts"] == ["", "é1", "é2é2", "é3é3é3"] for one in found)
    assert all(one["word"] == "of 0" for one in found)


@pytest.mark.mpi
@pytest.mark.parametrize("deed", ["raise", "stall", "SIGKILL", "SIGTERM"])
def test_one_rank_of_mpi_that_fails_ends_all(deed: str, mpiexec: Mpiexec, tmp_path: Path) -> None:
    began = time.monotonic()
    status, said = mpiexec(3, [PROGRAM, "auto", deed], tmp_path)
    assert time.monotonic() - began < 20  # the others would wait 50 s
    assert status != 0  # that of a rank, or of one that mpiexec killed for it
    reason = {"raise": "ZeroDivisionError: it broke", "stall": "The workers stalled."}
    if deed in reason:
        assert said.count(reason[deed]) == said.count("rank 1 of 3") == 1


@pytest.mark.mpi
def test_ranks_of_mpi_that_differ_all_say_so(mpiexec: Mpiexec, tmp_path: Path) -> None:
    status, said = mpiexec(3, [PROGRAM, "auto", "differ"], tmp_path)
    assert status == 1
    assert said.count("seed: 3 on ranks 0 and 2, 4 on rank 1") == 3


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("variable", "reason"),
    [
        ("OMPI_COMM_WORLD_SIZE", "4 processes were started by Open MPI, but mpi4py uses MPICH"),
        ("SLURM_STEP_NUM_TASKS", "4 processes were started, but MPI's communicator has 1"),
    ],
)
def test_the_launcher_of_another_mpi_is_refused_with_both_and_the_fix(
    variable: str, reason: str, torchrun: Torchrun, tmp_path: Path
) -> None:
    # Where there is an Open MPI, MPICH would end the process if it were started.
    environ = {variable: "4", "PMIX_NAMESPACE": "prterun-1@1", "PMIX_RANK": "0"}
    if variable == "SLURM_STEP_NUM_TASKS":  # as with --mpi=none
        environ = {variable: "4"}
    statuses, said = torchrun(1, [PROGRAM, "mpi", "talk"], tmp_path, [environ])
    assert statuses == [1]
    assert f"{variable} says that {reason}" in said
    assert "Start with the mpiexec of that MPI" in said
