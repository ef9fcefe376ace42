"""Several ranks pack the very bytes that one process packs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dtsflow.cli.main import main
from dtsflow.testing import jpeg

PROGRAM = str(Path(__file__).with_name("packer.py"))
PACK = ["-m", "dtsflow", "pack"]
Torchrun = Callable[..., tuple[list[int], str]]
Mpiexec = Callable[..., tuple[int, str]]
HIDDEN = ".photos_train_lv0.part"


@pytest.fixture
def photos(workdir: Path) -> Path:
    """24 photographs of 2 classes, and a file that is none."""
    folder = workdir / "photos"
    for number in range(24):
        path = folder / "ab"[number % 2] / f"{number:02d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(40 + number, 30, seed=number))
    (folder / "a" / "empty.jpg").touch()
    return folder


@pytest.fixture
def large(workdir: Path) -> Path:
    """6 photographs, so large by zeros that a block holds one."""
    folder = workdir / "photos" / "a"
    folder.mkdir(parents=True)
    for number in range(6):
        path = folder / f"{number}.jpg"
        path.write_bytes(jpeg(40, 30, seed=number) + bytes(8_500_000) + b"\xff\xd9")
    return folder.parent


def words(folder: str, *more: object) -> list[str]:
    return ["photos", folder, "--split", "train", *map(str, more)]


def contents(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def alone(*more: object) -> dict[str, bytes]:
    """What one process packs, in this one."""
    assert main(["pack", *words("alone", "--quiet", *more)]) == 0
    return contents("alone")


@pytest.mark.mpi
@pytest.mark.parametrize("volumes", [1, 3])
@pytest.mark.usefixtures("photos")
def test_ranks_of_mpi_pack_what_one_process_packs(
    volumes: int, mpiexec: Mpiexec, workdir: Path
) -> None:
    status, said = mpiexec(2, [*PACK, *words("out", "--volumes", volumes)], workdir)
    assert status == 0, said
    assert contents("out") == alone("--volumes", volumes)
    assert len(list(Path("out").glob("*.dts"))) == volumes
    assert said.count("24 images, 2 classes,") == said.count("1 file rejected") == 1
    assert "check (rank 0 of 2): 25/25" in said
    assert ("1 of 2 ranks have no volume to write" in said) == (volumes == 1)


@pytest.mark.usefixtures("photos")
def test_ranks_of_torchrun_pack_what_one_process_packs(torchrun: Torchrun, workdir: Path) -> None:
    options = ["--level", 1, "--volumes", 3]
    statuses, said = torchrun(2, [*PACK, *words("out", *options)], workdir)
    assert statuses == [0, 0], said
    assert contents("out") == alone(*options)
    assert said.count("24 images, 2 classes,") == 1


def test_an_image_that_another_rank_rejects_is_listed_where_it_was_to_be(
    photos: Path, torchrun: Torchrun, workdir: Path
) -> None:
    options = ["--level", 1, "--volumes", 2]
    second = alone(*options)["photos_train_lv1-00002-of-00002.dts.manifest.jsonl"]
    damaged = photos / json.loads(second.splitlines()[0])["name"]
    damaged.write_bytes(damaged.read_bytes()[:300])
    for path in Path("alone").iterdir():
        path.unlink()
    statuses, said = torchrun(2, [*PACK, *words("out", *options)], workdir)
    assert statuses == [0, 0], said
    packed = contents("out")
    assert packed == alone(*options)
    rejects = packed["photos_train_lv1-00002-of-00002.dts.rejects.jsonl"].decode()
    assert damaged.name in rejects
    assert said.count("2 files rejected") == 1


@pytest.mark.mpi
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.usefixtures("large")
def test_a_pack_whose_rank_was_killed_goes_on_with_other_ranks_to_the_same_bytes(
    rank: int, mpiexec: Mpiexec, torchrun: Torchrun, workdir: Path
) -> None:
    options = words("out", "--volumes", 2)
    status, _ = mpiexec(2, [PROGRAM, "SIGKILL", str(rank), "", *options], workdir)
    assert status != 0
    assert [path.name for path in Path("out").iterdir()] == [HIDDEN]
    journals = list(Path("out", HIDDEN).glob("*.journal"))
    assert any(path.stat().st_size for path in journals)
    statuses, said = torchrun(3, [*PACK, *options, "--resume"], workdir)
    assert statuses == [0] * 3, said
    assert contents("out") == alone("--volumes", 2)


@pytest.mark.usefixtures("large")
def test_one_process_goes_on_with_what_ranks_of_torchrun_left(
    torchrun: Torchrun, workdir: Path
) -> None:
    options = words("out", "--volumes", 3)
    statuses, said = torchrun(2, [PROGRAM, "SIGKILL", "1", "", *options], workdir)
    assert statuses == [1, -9], said
    assert "rank 1 of 2: it ended without a word" in said
    assert main(["pack", *options, "--resume"]) == 0
    assert contents("out") == alone("--volumes", 3)


@pytest.mark.usefixtures("photos")
def test_ranks_give_names_to_what_one_process_had_finished(
    torchrun: Torchrun, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def killed(path: Path, target: Path) -> Path:
        if target.suffix == ".dts":
            raise KeyboardInterrupt
        return rename(path, target)

    options = words("out", "--volumes", 2)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        assert main(["pack", *options]) == 130
    assert Path("out", HIDDEN, "finished").exists()
    statuses, said = torchrun(2, [*PACK, *options, "--resume"], workdir)
    assert statuses == [0, 0], said
    assert contents("out") == alone("--volumes", 2)


@pytest.mark.mpi
@pytest.mark.usefixtures("large")
def test_a_rank_that_fails_ends_all_and_is_named(mpiexec: Mpiexec, workdir: Path) -> None:
    command = [PROGRAM, "raise", "1", "", *words("out", "--volumes", 2)]
    status, said = mpiexec(2, command, workdir)
    assert status != 0
    assert said.count("rank 1 of 2: out/photos_train_lv0 could not be written") == 1
    assert "No space left on device. Nothing has its final name yet" in said
    assert [path.name for path in Path("out").iterdir()] == [HIDDEN]


@pytest.mark.parametrize(
    ("odd", "told"),
    [
        ("--level 1", "level: 0 on rank 0, 1 on rank 1"),
        ("--limit 3", "limit: None on rank 0, 3 on rank 1"),
        ("--limit 0", "rank 1: a limit of 0 images"),
        ("--classes nowhere", "classes: None on rank 0, nowhere on rank 1"),
    ],
)
@pytest.mark.usefixtures("photos")
def test_ranks_that_would_not_pack_the_same_write_nothing(
    odd: str, told: str, torchrun: Torchrun, workdir: Path
) -> None:
    statuses, said = torchrun(2, [PROGRAM, "", "", odd, *words("out")], workdir)
    assert statuses == [1, 1]
    assert said.count(told) == 1
    assert not list(Path("out").iterdir())


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("photos", "out/photos_train_lv0.dts exists already"),
        ("nowhere", "nowhere is not there"),
        ("nothing", "all 2 images were rejected"),
    ],
)
@pytest.mark.usefixtures("photos")
def test_what_stops_all_ranks_is_told_once(
    source: str, told: str, torchrun: Torchrun, workdir: Path
) -> None:
    Path("nothing", "a").mkdir(parents=True)
    for name in "xy":
        Path("nothing", "a", f"{name}.jpg").touch()
    Path("out").mkdir()
    Path("out", "photos_train_lv0.dts").touch()
    statuses, said = torchrun(2, [*PACK, source, "out", "--split", "train"], workdir)
    assert statuses == [1, 1]
    assert said.count(told) == 1
    assert [path.name for path in Path("out").iterdir()] == ["photos_train_lv0.dts"]


def test_a_set_of_pixels_is_packed_by_one_rank(torchrun: Torchrun, workdir: Path) -> None:
    Path("photos").mkdir()
    big = (8, 28, 28)
    pixels = b"".join(n.to_bytes(4, "big") for n in (0x803, *big)) + bytes(8 * 28 * 28)
    labels = b"".join(n.to_bytes(4, "big") for n in (0x801, 8)) + bytes(range(8))
    Path("photos", "train-images-idx3-ubyte").write_bytes(pixels)
    Path("photos", "train-labels-idx1-ubyte").write_bytes(labels)
    statuses, said = torchrun(2, [*PACK, *words("out")], workdir)
    assert statuses == [0, 0], said
    assert said.count("8 images, 8 classes, 1 block") == 1
    assert contents("out") == alone()


def test_images_of_a_table_are_unpacked_by_one_rank(torchrun: Torchrun, workdir: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    rows = {"image": [jpeg(8, 8, seed=i) for i in range(6)], "label": [0, 1] * 3}
    pq.write_table(pa.table(rows), workdir / "photos.parquet")
    options = ["--spool", "spool", "--volumes", 2]
    command = ["photos.parquet", "out", "--split", "train", *map(str, options)]
    statuses, said = torchrun(2, [*PACK, *command], workdir)
    assert statuses == [0, 0], said
    assert said.count("unpacking the images") == 1
    assert main(["pack", "photos.parquet", "alone", "--quiet", *command[2:]]) == 0
    assert contents("out") == contents("alone")


@pytest.mark.usefixtures("photos")
def test_a_dry_run_of_several_ranks_is_one(torchrun: Torchrun, workdir: Path) -> None:
    statuses, said = torchrun(2, [*PACK, *words("out", "--dry-run", "--quiet")], workdir)
    assert statuses == [0, 0]
    assert said.count("would write  out/photos_train_lv0.dts") == 1
    assert not list(Path("out").iterdir())
