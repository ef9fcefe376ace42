import pytest

from dtsflow.config.configurable import is_configurable
from dtsflow.errors import RanksError
from dtsflow.ranks import Auto, Env, Mpi, Single

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("environ", "kind"),
    [
        ({}, Single()),
        ({"PMI_SIZE": "1"}, Single()),
        ({"PMI_SIZE": "2"}, Mpi(5.0)),
        ({"SLURM_STEP_NUM_TASKS": "2"}, Mpi(5.0)),
        (TORCHRUN, Env(5.0)),
        ({**TORCHRUN, "OMPI_COMM_WORLD_SIZE": "2"}, Mpi(5.0)),
        ({**TORCHRUN, "TORCHELASTIC_RUN_ID": "x", "PMI_SIZE": "2"}, Env(5.0)),
    ],
)
def test_the_kind_is_what_the_launcher_started(
    environ: dict[str, str], kind: Single | Mpi | Env
) -> None:
    assert Auto(timeout_s=5).kind(environ) == kind


def test_without_a_launcher_it_joins_as_one_process() -> None:
    assert Auto().join(None, {}).rank.size == 1


def test_with_a_launcher_it_joins_as_that_kind_would() -> None:
    with pytest.raises(RanksError, match="2 ranks need one run folder: give the run a name"):
        Auto().join(None, TORCHRUN)


@pytest.mark.parametrize("kind", [Auto, Env, Mpi])
def test_yaml_may_name_each(kind: type) -> None:
    assert is_configurable(kind)
