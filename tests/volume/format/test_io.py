import os
from pathlib import Path

import numpy as np
import pytest

from dtsflow.errors import VolumeError
from dtsflow.volume.format import io
from dtsflow.volume.format.io import opened, read_bytes, read_into


@pytest.fixture(params=["preadv", "seek"])
def file(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "seek":
        monkeypatch.delattr(os, "preadv", raising=False)
    monkeypatch.setattr(io, "PIECE_BYTES", 100)
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(250)) * 4)
    return path


def test_it_fills_all_of_the_memory_piece_by_piece(file: Path) -> None:
    memory = np.zeros(777, np.uint8)
    with opened(file) as descriptor:
        read_into(descriptor, memory, 123, file)
    assert memory.tobytes() == file.read_bytes()[123:900]


def test_a_file_that_ends_early_is_named_with_both_numbers(file: Path) -> None:
    with (
        opened(file) as descriptor,
        pytest.raises(VolumeError, match=r"bytes ended early: wanted 500 bytes at 700, got 300"),
    ):
        read_bytes(descriptor, 500, 700, file)


def test_a_failing_disk_is_named(file: Path) -> None:
    with opened(file) as descriptor:
        pass
    with pytest.raises(VolumeError, match="reading 10 bytes at 5 failed: Bad file descriptor"):
        read_bytes(descriptor, 10, 5, file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(VolumeError, match=r"none\.dts cannot be opened: No such file"),
        opened(tmp_path / "none.dts"),
    ):
        pass
