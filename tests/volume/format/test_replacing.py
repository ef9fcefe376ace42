import errno
import os
import shutil
import stat
from pathlib import Path

import pytest

from dtsflow.errors import PackError
from dtsflow.volume.format.io import appearing, check_space, refuse_existing, replacing


def test_the_file_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with replacing(path) as file:
        file.write(b"whole")
        assert not path.exists()
        assert [entry.name[:3] for entry in tmp_path.iterdir()] == [".a."]
    assert path.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [path]


def test_the_bytes_are_on_the_disk_before_the_name_and_the_name_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[tuple[bool, bool]] = []
    fsync = os.fsync

    def watch(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        forced.append((is_folder, (tmp_path / "a").exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    with replacing(tmp_path / "a") as file:
        file.write(b"whole")
    assert forced == [(False, False), (True, True)]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("x"), PackError("x")])
def test_what_stops_the_writer_leaves_no_file(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)), replacing(tmp_path / "a"):
        raise error
    assert not list(tmp_path.iterdir())


def test_a_file_that_came_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with pytest.raises(PackError, match="exists already"), replacing(path):
        path.write_text("mine")
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_a_pack_error(tmp_path: Path) -> None:
    with (
        pytest.raises(PackError, match=r"a could not be written: .*No space"),
        replacing(tmp_path / "a"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert not list(tmp_path.iterdir())


def test_a_name_the_system_refuses_is_a_pack_error(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 300)
    refuse_existing(path)
    with pytest.raises(PackError, match="could not be written"), replacing(path):
        pass


def test_a_link_to_nowhere_exists(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(PackError, match="exists already"):
        refuse_existing(link)
    with pytest.raises(PackError, match="exists already"), appearing(link):
        pass


def test_the_message_says_what_needs_the_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=7)
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: usage)
    check_space(tmp_path, 7)
    with pytest.raises(PackError, match="7 bytes free, the export takes 8"):
        check_space(tmp_path, 8, what="the export")


def test_a_folder_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "a"
    with appearing(folder) as unfinished:
        (unfinished / "x").write_text("x")
        assert not folder.exists()
        assert unfinished.name.startswith(".a.")
    assert [entry.name for entry in folder.iterdir()] == ["x"]
    assert list(folder.parent.iterdir()) == [folder]


def test_what_stops_the_filling_leaves_no_folder(tmp_path: Path) -> None:
    def fill(error: BaseException) -> None:
        with appearing(tmp_path / "a") as unfinished:
            (unfinished / "x").write_text("x")
            raise error

    for error in (KeyboardInterrupt(), PackError("x")):
        with pytest.raises(type(error)):
            fill(error)
    with pytest.raises(PackError, match=r"a could not be written: .*No space.*check the disk"):
        fill(OSError(errno.ENOSPC, "No space left on device"))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_came_meanwhile_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "mine").touch()
    with pytest.raises(PackError, match="could not be written"), appearing(folder):
        mine.rename(folder)
    assert [entry.name for entry in folder.iterdir()] == ["mine"]
    assert list(tmp_path.iterdir()) == [folder]
