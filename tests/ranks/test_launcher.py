import pytest

from dtsflow.errors import RanksError
from dtsflow.ranks.launcher import is_mpi, launched_size


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, None),
        ({"OMPI_COMM_WORLD_SIZE": "4"}, ("OMPI_COMM_WORLD_SIZE", 4)),
        ({"PMI_SIZE": "2"}, ("PMI_SIZE", 2)),
        ({"SLURM_STEP_NUM_TASKS": "16"}, ("SLURM_STEP_NUM_TASKS", 16)),
        ({"RANK": "0", "WORLD_SIZE": "8"}, ("WORLD_SIZE", 8)),
        ({"OMPI_COMM_WORLD_SIZE": "1"}, None),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
        ({"WORLD_SIZE": "8"}, None),
        ({"SLURM_NTASKS": "8"}, None),
        ({"PMI_SIZE": "1", "SLURM_STEP_NUM_TASKS": "3"}, ("SLURM_STEP_NUM_TASKS", 3)),
        (
            {"RANK": "0", "WORLD_SIZE": "8", "OMPI_COMM_WORLD_SIZE": "4"},
            ("OMPI_COMM_WORLD_SIZE", 4),
        ),
        (
            {
                "TORCHELASTIC_RUN_ID": "x",
                "RANK": "0",
                "WORLD_SIZE": "8",
                "SLURM_STEP_NUM_TASKS": "2",  # of the srun that started torchrun twice
            },
            ("WORLD_SIZE", 8),
        ),
    ],
)
def test_a_launcher_is_known_by_its_variables(
    environ: dict[str, str], found: tuple[str, int] | None
) -> None:
    assert launched_size(environ) == found


@pytest.mark.parametrize("text", ["", "two", "-1", "0", "1.5", "²"])
@pytest.mark.parametrize("name", ["OMPI_COMM_WORLD_SIZE", "WORLD_SIZE"])
def test_a_variable_without_a_number_is_named(name: str, text: str) -> None:
    with pytest.raises(RanksError, match=f"{name} is '{text}'"):
        launched_size({"RANK": "0", name: text})


def test_torchrun_alone_does_not_start_mpi() -> None:
    assert is_mpi("PMI_SIZE")
    assert not is_mpi("WORLD_SIZE")
