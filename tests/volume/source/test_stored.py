import io
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtsflow.errors import PackError
from dtsflow.volume.source.base import Stored, whole_file

DATA = bytes(range(200))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "f"
    path.write_bytes(DATA)
    return path


def part(path: Path, offset: int, size: int) -> Stored:
    state = path.stat()
    return Stored(str(path), offset, size, state.st_size, state.st_mtime_ns)


def test_a_whole_file_is_read_whole(path: Path) -> None:
    stored = whole_file(str(path), path.stat())
    assert (stored.offset, stored.size, stored.file_bytes) == (0, 200, 200)
    assert stored.read() == DATA


@given(st.integers(0, 200), st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_run_and_its_parts_are_those_bytes(path: Path, offset: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, 200 - offset))
    stored = part(path, offset, size)
    assert stored.read() == DATA[offset : offset + size]
    start = data.draw(st.integers(0, size))
    assert stored.read_parts((start, size - start), (0, start)) == [
        DATA[offset + start : offset + size],
        DATA[offset : offset + start],
    ]


def test_an_empty_run_is_no_bytes(path: Path) -> None:
    assert part(path, 200, 0).read() == b""
    assert part(path, 7, 9).read_parts() == []


def test_a_file_of_another_size_is_refused(path: Path) -> None:
    stored = part(path, 10, 20)
    state = path.stat()
    for data in (DATA + b"!", DATA[:-1], b""):
        path.write_bytes(data)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        with pytest.raises(PackError, match=rf"f changed while.*200 bytes before, {len(data)} now"):
            stored.read()


@pytest.mark.parametrize("later", [1, -1, 10**9])
def test_a_file_of_another_time_is_refused(path: Path, later: int) -> None:
    stored = part(path, 10, 20)
    state = path.stat()
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + later))
    with pytest.raises(PackError, match="another time of change"):
        stored.read()
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert stored.read() == DATA[10:30]


def test_another_file_under_the_name_is_refused(path: Path, tmp_path: Path) -> None:
    stored = part(path, 0, 5)
    other = tmp_path / "other"
    other.write_bytes(DATA[::-1])
    os.utime(other, ns=(0, path.stat().st_mtime_ns + 5))
    other.replace(path)
    with pytest.raises(PackError, match="changed while it was packed"):
        stored.read()


def test_a_run_past_the_end_of_the_file_is_refused(path: Path) -> None:
    with pytest.raises(PackError, match=r"200 bytes before, 200 now"):
        part(path, 150, 51).read()


def test_reads_that_give_less_than_asked_for_are_gone_on_with(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(io.FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or 0, 7))

    monkeypatch.setattr("builtins.open", lambda name, *_, **__: Slow(name))
    assert part(path, 3, 150).read() == DATA[3:153]


def test_a_file_that_cannot_be_opened_is_the_systems_error(tmp_path: Path, path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Stored(str(tmp_path / "gone"), 0, 1, 1, 0).read()
    with pytest.raises(IsADirectoryError):
        Stored(str(tmp_path), 0, 1, 1, 0).read()
    assert part(path, 0, 1).read() == b"\0"
