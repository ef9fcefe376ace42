"""`dtsflow plan ranks.simulate=W`: what many ranks would do."""

from pathlib import Path

import pytest

from dtsflow.cli.main import main
from dtsflow.errors import RanksError
from dtsflow.ranks.config import Auto
from dtsflow.ranks.group import Rank
from dtsflow.testing import jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import Kind


@pytest.fixture
def volume(workdir: Path) -> Path:
    images = [(jpeg(8, 8, seed=i), i % 3) for i in range(40)]
    return write_block_volume(workdir / "x.dts", [images[i : i + 4] for i in range(0, 40, 4)])


def planned(capsys: pytest.CaptureFixture[str], volume: Path, *more: str) -> dict[str, str]:
    """The lines of the simulation, by what they begin with."""
    crop = "po.operations=[{_target_: dtsflow.po.RandomResizedCrop, size: 8}]"
    words = [f"volume.path={volume}", crop, "batch_size=8", *more]
    assert main(["plan", *words]) == 0
    told = capsys.readouterr().out.partition("simulated: ")[2]
    assert told
    lines = [line.strip().split("  ", 1) for line in told.splitlines()]
    return {line[0]: line[1].strip() for line in lines if len(line) > 1} | {"": told.split("\n")[0]}


def test_streaming_ranks_read_their_lanes(capsys: pytest.CaptureFixture[str], volume: Path) -> None:
    told = planned(capsys, volume, "reader=streaming", "ranks.simulate=8", "ranks.per_node=2")
    assert told[""] == "8 ranks on 4 nodes, 2 on each"
    assert told["steps of an epoch"] == "5"
    assert told["rows of a batch"] == "1 a rank, 8 in all"
    assert told["samples of a rank"] == "5"
    assert told["read by a rank"] == "32.0 MiB"  # 5 samples of blocks of 4
    assert told["read by a node"] == "64.0 MiB"
    assert told["read by all"] == "256.0 MiB, amplification 1.600"
    assert told["once on a node"] == "0 B"
    assert not Path("runs").exists()


def test_resident_nodes_read_and_hold_every_block_once(
    capsys: pytest.CaptureFixture[str], volume: Path
) -> None:
    told = planned(capsys, volume, "reader=resident", "ranks.simulate=8", "ranks.per_node=4")
    assert told["read by a node"] == "160.0 MiB"
    assert told["read by all"] == "320.0 MiB, amplification 2.000"
    assert told["once on a node"] == "160.0 MiB of blocks"


def test_a_node_holds_what_its_ranks_hold(capsys: pytest.CaptureFixture[str], volume: Path) -> None:
    told = planned(capsys, volume, "reader=streaming", "ranks.simulate=8", "ranks.per_node=2")
    alone = planned(capsys, volume, "reader=streaming", "ranks.simulate=8", "ranks.per_node=1")
    assert alone["of a node"] == told["of a rank alone"] == alone["of a rank alone"]
    number, unit = told["of a node"].split()
    assert unit == "MiB"
    assert float(number) == pytest.approx(2 * float(alone["of a node"].split()[0]), abs=0.2)


def test_the_limit_of_this_machine_refuses_no_simulation(
    capsys: pytest.CaptureFixture[str], volume: Path
) -> None:
    assert planned(capsys, volume, "memory.limit=1000", "ranks.simulate=4")


def test_a_pixel_set_is_as_large_as_it_is(
    capsys: pytest.CaptureFixture[str], workdir: Path
) -> None:
    path = write_small_set(workdir / "mnist_test.dts", Kind.MNIST, 100)
    told = planned(capsys, path, "po=mnist", "po.operations=[]", "ranks.simulate=2")
    assert told["read by a node"] == "76.7 KiB"  # 100 images of 28 x 28 and a label


def test_ranks_that_do_not_divide_the_lanes_are_refused(
    capsys: pytest.CaptureFixture[str], volume: Path
) -> None:
    words = [f"volume.path={volume}", "po=imagenet_train", "batch_size=96", "ranks.simulate=3"]
    assert main(["plan", *words]) == 2
    assert "For 3 ranks use lanes=24" in capsys.readouterr().err


def test_simulated_ranks_do_not_run() -> None:
    with pytest.raises(RanksError, match=r"ranks\.simulate=512 is for `dtsflow plan`"):
        Auto(simulate=512).join(None, {})


def test_the_first_rank_of_a_simulation_shares_its_node() -> None:
    assert Auto().simulated() is None
    assert Auto(simulate=512).simulated() == Rank(index=0, size=512, local_size=8)
    assert Auto(simulate=4).simulated() == Rank(index=0, size=4, local_size=4)
