import importlib
import sys

import pytest

from dtsflow.errors import MissingPartError, RanksError
from dtsflow.ranks import Mpi
from dtsflow.ranks.mpi import check_world


def test_without_mpi4py_it_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(MissingPartError, match=r"ranks=mpi needs mpi4py .*dtsflow\[mpi\]"):
        Mpi().join(None, {})


def test_without_mpi4py_the_package_of_ranks_can_be_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    for name in ("dtsflow.ranks.mpi", "dtsflow.ranks.auto"):
        monkeypatch.delitem(sys.modules, name)
    assert importlib.import_module("dtsflow.ranks.auto").Auto().join(None, {}).rank.size == 1


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
