"""A pack that is stopped anywhere goes on to the very same bytes."""

import errno
import itertools
import logging
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from dtsflow.errors import PackError
from dtsflow.testing import jpeg
from dtsflow.volume.packing import volume_part, write
from dtsflow.volume.packing.options import Encoding, Layout, Level, Packing
from dtsflow.volume.packing.pack import pack
from dtsflow.volume.packing.prepare import Prepared
from dtsflow.volume.source.base import Stored

IMAGES = 60
VOLUMES = 3


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 MB of images, 8 blocks at level 0: small JPEGs with 2 MB of zeros inside."""
    folder = tmp_path_factory.mktemp("data") / "flowers"
    for number in range(IMAGES):
        path = folder / "abc"[number % 3] / f"{number:03d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(40, 30, seed=number) + bytes(2_000_000) + b"\xff\xd9")
    (folder / "b" / "empty.jpg").touch()
    return folder


def packing(level: Level, *, resume: bool = False) -> Packing:
    return Packing(
        split="train",
        encoding=Encoding(level=level),
        layout=Layout(volumes=VOLUMES),
        resume=resume,
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def wanted(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[Level, dict[str, bytes]]:
    levels: tuple[Level, ...] = (0, 3)
    whole: dict[Level, dict[str, bytes]] = {}
    for level in levels:
        folder = tmp_path_factory.mktemp(f"lv{level}")
        pack(source, folder, packing(level))
        whole[level] = contents(folder)
    return whole


def stop_at(call: int, error: BaseException) -> Callable[[str, int, int], None]:
    calls = 0

    def progress(what: str, _done: int, _images: int) -> None:
        nonlocal calls
        calls += what == "pack"
        if calls == call:
            raise error

    return progress


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("call", [2, 3, 4])
def test_an_interrupted_pack_goes_on(
    source: Path,
    tmp_path: Path,
    wanted: dict[Level, dict[str, bytes]],
    level: Level,
    call: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(KeyboardInterrupt):
        pack(source, tmp_path, packing(level), stop_at(call, KeyboardInterrupt()))
    (hidden,) = tmp_path.iterdir()
    assert hidden.name == f".flowers_train_lv{level}.part"
    assert "go on with --resume" in caplog.text
    pack(source, tmp_path, packing(level, resume=True))
    assert contents(tmp_path) == wanted[level]


def test_written_blocks_are_not_written_again(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt):
        pack(source, tmp_path, packing(0), stop_at(4, KeyboardInterrupt()))
    filled: list[int] = []
    write_block = volume_part.VolumePart._write_block

    def counting(part: volume_part.VolumePart, images: Sequence[Prepared]) -> int:
        filled.append(len(images))
        return write_block(part, images)

    monkeypatch.setattr(volume_part.VolumePart, "_write_block", counting)
    packed = pack(source, tmp_path, packing(0, resume=True))
    assert len(filled) == packed.blocks - 3


def test_without_resume_a_pack_starts_anew(
    source: Path, tmp_path: Path, wanted: dict[Level, dict[str, bytes]]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        pack(source, tmp_path, packing(0), stop_at(4, KeyboardInterrupt()))
    pack(source, tmp_path, packing(0))
    assert contents(tmp_path) == wanted[0]


def test_resume_without_anything_to_go_on_with_is_a_pack(
    source: Path, tmp_path: Path, wanted: dict[Level, dict[str, bytes]]
) -> None:
    pack(source, tmp_path, packing(0, resume=True))
    assert contents(tmp_path) == wanted[0]


def test_other_options_are_not_gone_on_with(source: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        pack(source, tmp_path, packing(0), stop_at(4, KeyboardInterrupt()))
    other = Packing(split="train", layout=Layout(volumes=2), resume=True)
    with pytest.raises(PackError, match="begun with other sources or options"):
        pack(source, tmp_path, other)
    (hidden,) = tmp_path.iterdir()  # nothing is thrown away
    assert len(list(hidden.glob("*.dts"))) == 1


def test_a_block_that_a_crash_damaged_is_written_again(
    source: Path, tmp_path: Path, wanted: dict[Level, dict[str, bytes]]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        pack(source, tmp_path, packing(0), stop_at(4, KeyboardInterrupt()))
    (hidden,) = tmp_path.iterdir()
    volume = hidden / "flowers_train_lv0-00001-of-00003.dts"
    with volume.open("r+b") as file:
        file.seek((2 << 24) + 5000)
        file.write(b"torn")
    pack(source, tmp_path, packing(0, resume=True))
    assert contents(tmp_path) == wanted[0]


@pytest.mark.parametrize("name", ["manifest", "rejects", "journal"])
def test_a_torn_line_is_written_again(
    source: Path, tmp_path: Path, wanted: dict[Level, dict[str, bytes]], name: str
) -> None:
    with pytest.raises(KeyboardInterrupt):
        pack(source, tmp_path, packing(0), stop_at(4, KeyboardInterrupt()))
    (hidden,) = tmp_path.iterdir()
    (path,) = hidden.glob(f"*00001-of*.{name}*")
    os.truncate(path, path.stat().st_size - 3)
    pack(source, tmp_path, packing(0, resume=True))
    assert contents(tmp_path) == wanted[0]


def test_a_full_disk_keeps_what_is_written(
    source: Path,
    tmp_path: Path,
    wanted: dict[Level, dict[str, bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_block = volume_part.VolumePart._write_block
    blocks = 0

    def filling(part: volume_part.VolumePart, images: Sequence[Prepared]) -> int:
        nonlocal blocks
        blocks += 1
        if blocks == 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_block(part, images)

    with monkeypatch.context() as patch:
        patch.setattr(volume_part.VolumePart, "_write_block", filling)
        with pytest.raises(PackError, match=r"No space left on device.*go on with resume"):
            pack(source, tmp_path, packing(0))
    assert not list(tmp_path.glob("*.dts"))
    pack(source, tmp_path, packing(0, resume=True))
    assert contents(tmp_path) == wanted[0]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), PackError("no room")])
def test_a_resume_that_ends_before_it_writes_keeps_what_is_there(
    source: Path,
    tmp_path: Path,
    wanted: dict[Level, dict[str, bytes]],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    def ending(*_: object, **__: object) -> None:
        raise error

    with pytest.raises(KeyboardInterrupt):
        pack(source, tmp_path, packing(0), stop_at(4, KeyboardInterrupt()))
    with monkeypatch.context() as patch:
        patch.setattr(write, "check_space", ending)
        with pytest.raises(type(error)):
            pack(source, tmp_path, packing(0, resume=True))
    (hidden,) = tmp_path.iterdir()
    assert (hidden / "flowers_train_lv0-00001-of-00003.dts").stat().st_size > 3 << 24
    pack(source, tmp_path, packing(0, resume=True))
    assert contents(tmp_path) == wanted[0]


def test_an_interrupt_while_written_blocks_are_checked_keeps_them(
    source: Path,
    tmp_path: Path,
    wanted: dict[Level, dict[str, bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(source, tmp_path, packing(0), stop_at(4, KeyboardInterrupt()))
    with monkeypatch.context() as patch:
        patch.setattr(volume_part.VolumePart, "_crc_of", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pack(source, tmp_path, packing(0, resume=True))
    assert len(list(tmp_path.glob(".*.part/*.dts"))) == 1
    pack(source, tmp_path, packing(0, resume=True))
    assert contents(tmp_path) == wanted[0]


@pytest.mark.parametrize(("level", "code"), [(0, errno.ESTALE), (3, errno.EMFILE)])
def test_an_error_of_the_machine_loses_no_image_and_no_block(
    source: Path,
    tmp_path: Path,
    wanted: dict[Level, dict[str, bytes]],
    monkeypatch: pytest.MonkeyPatch,
    level: Level,
    code: int,
) -> None:
    read, reads = Stored.read, itertools.count()

    def failing(stored: Stored) -> bytes:
        if next(reads) == 45:
            raise OSError(code, os.strerror(code))
        return read(stored)

    with monkeypatch.context() as patch:
        patch.setattr(Stored, "read", failing)
        with pytest.raises(PackError, match=r"\.jpg was there and cannot be read now: .* resume"):
            pack(source, tmp_path, packing(level))
    pack(source, tmp_path, packing(level, resume=True))
    assert contents(tmp_path) == wanted[level]


def test_a_crash_between_two_renames_goes_on(
    source: Path,
    tmp_path: Path,
    wanted: dict[Level, dict[str, bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rename = Path.rename
    renamed: list[Path] = []

    def crashing(path: Path, target: Path) -> Path:
        if len(renamed) == 3:
            raise KeyboardInterrupt
        renamed.append(target)
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", crashing)
        with pytest.raises(KeyboardInterrupt):
            pack(source, tmp_path, packing(3))
    packed = pack(source, tmp_path, packing(3, resume=True))
    assert (packed.images, packed.rejects) == (IMAGES, 1)
    assert contents(tmp_path) == wanted[3]


def test_two_processes_do_not_write_into_each_other(
    source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def second(what: str, _done: int, _images: int) -> None:
        if what == "pack":
            with pytest.raises(PackError, match="is being written by another process"):
                pack(source, tmp_path, packing(0))

    pack(source, tmp_path, packing(0), second)


def test_a_block_has_its_mark_on_the_disk_before_the_next_one_is_begun(
    source: Path, tmp_path: Path
) -> None:
    """What a kill leaves at such a moment is all that was written."""
    marked: list[tuple[int, int]] = []

    def look(what: str, done: int, _images: int) -> None:
        if what == "pack" and done:
            journals = (tmp_path / ".flowers_train_lv0.part").glob("*.journal")
            marked.append((done, sum(len(path.read_bytes().splitlines()) for path in journals)))

    pack(source, tmp_path, packing(0), look)
    assert [count for _, count in marked] == list(range(1, len(marked) + 1))
    assert marked[-1][0] == IMAGES


KILLS = 20
COMMAND = [sys.executable, "-m", "dtsflow", "pack"]


def test_killed_at_random_moments_a_pack_goes_on_to_the_same_bytes(
    source: Path, tmp_path: Path, wanted: dict[Level, dict[str, bytes]]
) -> None:
    rng = random.Random(4)
    options = ["--split", "train", "--volumes", str(VOLUMES), "--quiet", "--resume"]
    command = [*COMMAND, str(source), str(tmp_path), *options]
    killed = 0
    for _ in range(KILLS):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for_a_moment(tmp_path, process, rng)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.wait()
        if list(tmp_path.glob("*-00003-of-*.dts")):
            finish(command, tmp_path)
            assert contents(tmp_path) == wanted[0]
            for path in tmp_path.iterdir():
                path.unlink()
    assert killed >= KILLS // 2
    finish(command, tmp_path)
    assert contents(tmp_path) == wanted[0]


def wait_for_a_moment(folder: Path, process: "subprocess.Popen[bytes]", rng: random.Random) -> None:
    """Wait until the pack has come to a place of its own choosing, or has ended."""
    hidden = folder / ".flowers_train_lv0.part"
    wanted = rng.randrange(1, 12)
    before = progress_of(hidden)
    while process.poll() is None and progress_of(hidden) < before + wanted:
        time.sleep(0.001)


def progress_of(hidden: Path) -> int:
    """How many 4 MB pieces are in the hidden folder."""
    try:
        return sum(path.stat().st_blocks * 512 for path in hidden.iterdir()) // 4_000_000
    except OSError:
        return 0


def finish(command: list[str], folder: Path) -> None:
    if (folder / ".flowers_train_lv0.part").exists():
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
