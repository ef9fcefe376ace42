"""Several ranks find the damage that one process finds, and tell it once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dtsflow.cli.main import main
from dtsflow.testing import damage, jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import BLOCK_BYTES, Kind

VERIFY = ["-m", "dtsflow", "verify"]
Torchrun = Callable[..., tuple[list[int], str]]
Mpiexec = Callable[..., tuple[int, str]]


@pytest.fixture
def volumes(workdir: Path) -> Path:
    """Two damaged volumes, one that cannot be decoded, and a sound one of pixels."""
    folder = workdir / "data"
    folder.mkdir()
    blocks = [[(jpeg(seed=10 * block + i), i % 3) for i in range(4)] for block in range(3)]
    for name in "ab":
        write_block_volume(folder / f"{name}.dts", blocks)
    damage(folder / "a.dts", 3 * BLOCK_BYTES + 4, b"\7")
    damage(folder / "b.dts", 2 * BLOCK_BYTES + 4096, b"damage")
    damage(folder / "b.dts", 200, b"\1")
    write_block_volume(folder / "c.dts", [[(jpeg()[:200], 0)]])
    write_small_set(folder / "mnist_test.dts", Kind.MNIST, 9)
    return folder


def found_alone(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    status = main(["verify", *words])
    return status, report(capsys.readouterr().out)


def report(said: str) -> str:
    """What was said, without the progress."""
    return "".join(line for line in said.splitlines(keepends=True) if not line.startswith("verify"))


@pytest.mark.mpi
@pytest.mark.parametrize("size", [2, 6])
@pytest.mark.usefixtures("volumes")
def test_ranks_of_mpi_report_what_one_process_reports(
    size: int, mpiexec: Mpiexec, capsys: pytest.CaptureFixture[str], workdir: Path
) -> None:
    status, said = mpiexec(size, [*VERIFY, "data", "--decode"], workdir)
    assert (status, report(said)) == found_alone(capsys, "data", "--decode")
    assert status == 1
    assert said.startswith(f"verify (rank 0 of {size}): ")


@pytest.mark.parametrize("words", [["data"], ["data/a.dts"], ["data/a.dts", "--json"]])
@pytest.mark.usefixtures("volumes")
def test_ranks_of_torchrun_all_have_the_status_and_one_reports(
    words: list[str], torchrun: Torchrun, capsys: pytest.CaptureFixture[str], workdir: Path
) -> None:
    statuses, said = torchrun(2, [*VERIFY, *words], workdir)
    assert statuses == [1, 1]
    assert (1, report(said)) == found_alone(capsys, *words)


def test_nothing_wrong_is_status_0_on_all(volumes: Path, torchrun: Torchrun, workdir: Path) -> None:
    for name in "abc":
        (volumes / f"{name}.dts").unlink()
    statuses, said = torchrun(2, [*VERIFY, "data"], workdir)
    assert statuses == [0, 0]
    assert said.endswith("1 file, 1 block, 9 samples: nothing is wrong\n")
    assert [path.name for path in workdir.iterdir() if path.name != "said"] == ["data"]


def test_no_volume_is_told_once(torchrun: Torchrun, workdir: Path) -> None:
    statuses, said = torchrun(2, [*VERIFY, "data"], workdir)
    assert statuses == [1, 1]
    assert said.count("no volume found: looked for data") == 1
