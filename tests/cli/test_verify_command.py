import json
from pathlib import Path

import pytest

from dtsflow.cli.main import main
from dtsflow.testing import damage, jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import BLOCK_BYTES, Kind

PAYLOAD = BLOCK_BYTES + 4096 + 10


@pytest.fixture
def volume(workdir: Path) -> Path:
    images = [[(jpeg(seed=i), i % 3) for i in range(10)]]
    return write_block_volume(workdir / "tiny_train_lv0.dts", images)


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    try:
        status = main([str(word) for word in words])
    except SystemExit as left:
        status = int(left.code or 0)
    told = capsys.readouterr()
    return status, told.out, told.err


def test_a_healthy_folder_is_status_0(capsys: pytest.CaptureFixture[str], volume: Path) -> None:
    write_small_set(volume.parent / "mnist_test.dts", Kind.MNIST, 9)
    status, told, _ = call(capsys, "verify", ".", "--decode", "--workers", 2)
    assert status == 0
    assert told.startswith("verify: 2/2  ")
    assert " blocks/s, " in told
    assert told.endswith("2 files, 2 blocks, 19 samples: nothing is wrong\n")


def test_damage_is_one_line_each_and_status_1(
    capsys: pytest.CaptureFixture[str], volume: Path
) -> None:
    damage(volume, 200, b"\1")
    damage(volume, BLOCK_BYTES + 4, b"\5")
    status, told, told_err = call(capsys, "verify", volume)
    assert status == 1
    assert told_err == ""
    lines = told.splitlines()
    assert f"{volume}: block 0: it says it is block 5" in lines
    assert any(line.startswith(f"{volume}: header area: byte 200 is not zero") for line in lines)
    assert lines[-1] == "1 file, 1 block, 10 samples: 3 problems"


def test_json_says_the_same(capsys: pytest.CaptureFixture[str], volume: Path) -> None:
    damage(volume, BLOCK_BYTES + 4, b"\5")
    status, told, _ = call(capsys, "verify", volume, "--json")
    report = json.loads(told)
    assert status == 1
    assert report["problems"][0] == {
        "path": str(volume),
        "part": "block",
        "block": 0,
        "sample": None,
        "what": "it says it is block 5",
    }


def test_an_image_that_does_not_decode_is_named(
    capsys: pytest.CaptureFixture[str], workdir: Path
) -> None:
    images = [[(jpeg(seed=i), 0) for i in range(3)], [(jpeg()[:200], 0)]]
    path = write_block_volume(workdir / "x.dts", images)
    assert call(capsys, "verify", path)[0] == 0
    status, told, _ = call(capsys, "verify", path, "--decode")
    assert status == 1
    assert f"{path}: block 1, sample 3: cannot be decoded: " in told


def test_nothing_there_is_one_line(capsys: pytest.CaptureFixture[str], workdir: Path) -> None:
    assert not list(workdir.iterdir())
    status, _, told = call(capsys, "verify", "x.dts")
    assert status == 1
    assert told.startswith("dtsflow: no volume found")
    assert call(capsys, "verify", "x.dts", "--workers", 0)[0] == 2


def test_repair_takes_a_copy_or_its_folder(
    capsys: pytest.CaptureFixture[str], volume: Path
) -> None:
    whole = volume.read_bytes()
    (volume.parent / "backup").mkdir()
    copy = volume.parent / "backup" / volume.name
    copy.write_bytes(whole)
    for source in (copy, copy.parent):
        damage(volume, PAYLOAD, b"damage")
        status, told, _ = call(capsys, "repair", volume, "--from", source, "--dry-run")
        assert status == 0
        assert f"would mend: block 0: taken from {copy}" in told
        status, told, _ = call(capsys, "repair", volume, "--from", source)
        assert status == 0
        assert f"mended: block 0: taken from {copy}" in told
        assert told.endswith("nothing is wrong\n")
        assert volume.read_bytes() == whole


def test_what_repair_cannot_mend_is_listed_and_status_1(
    capsys: pytest.CaptureFixture[str], volume: Path
) -> None:
    damage(volume, PAYLOAD, b"damage")
    (volume.parent / "sources").mkdir()
    for words in ((), ("--dry-run",), ("--from", "sources")):
        status, told, _ = call(capsys, "repair", volume, *words)
        assert status == 1
        assert "not mended: blocks: without an index nothing tells which is damaged" in told
        assert "1 problem\n" in told
