import importlib
import sys

import pytest

from dtsflow.errors import MissingPartError, RanksError
from dtsflow.ranks import Mpi
from dtsflow.ranks.mpi import check_launcher, check_world


def test_without_mpi4py_it_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(MissingPartError, match=r"ranks=mpi needs mpi4py .*dtsflow\[mpi\]"):
        Mpi().join(None, {})


def test_without_mpi4py_the_package_of_ranks_can_be_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    for name in ("dtsflow.ranks.mpi", "dtsflow.ranks.config"):
        monkeypatch.delitem(sys.modules, name)
    assert importlib.import_module("dtsflow.ranks.config").Auto().join(None, {}).rank.size == 1


def test_a_world_of_one_process_where_several_were_started_is_refused() -> None:
    with pytest.raises(RanksError) as caught:
        check_world(1, "MPICH Version: 5", {"OMPI_COMM_WORLD_SIZE": "4"})
    for part in (
        "OMPI_COMM_WORLD_SIZE says that 4",
        "has 1",
        "MPICH Version: 5",
        "mpiexec of that",
    ):
        assert part in str(caught.value)


def test_a_world_as_the_launcher_says_is_welcome() -> None:
    check_world(4, "MPICH", {"PMI_SIZE": "4"})
    check_world(1, "MPICH", {"PMI_SIZE": "1"})
    check_world(1, "MPICH", {})


@pytest.mark.parametrize(
    "library", ["MPICH Version: 5.0.2", "Intel(R) MPI Library 2021.13", "CRAY MPICH version 8.1"]
)
def test_what_is_of_mpich_is_not_started_under_open_mpi(library: str) -> None:
    with pytest.raises(RanksError) as caught:
        check_launcher(library, {"OMPI_COMM_WORLD_SIZE": "4"})
    for part in ("OMPI_COMM_WORLD_SIZE says that 4", library, "mpiexec of that"):
        assert part in str(caught.value)
    check_launcher(library, {"PMI_SIZE": "4"})
    check_launcher(library, {})


@pytest.mark.parametrize("library", ["Open MPI v5.0.11", "IBM Spectrum MPI v10.4"])
def test_what_is_of_open_mpi_is_welcome_under_it(library: str) -> None:
    check_launcher(library, {"OMPI_COMM_WORLD_SIZE": "4"})
