import os
from pathlib import Path

import pytest

from dtsflow.errors import HeaderError
from dtsflow.testing import write_small_set
from dtsflow.volume.format.file import read_file
from dtsflow.volume.format.header import Kind


@pytest.mark.parametrize("kind", [Kind.MNIST, Kind.CIFAR10, Kind.CIFAR100])
def test_a_healthy_file_has_what_it_says(tmp_path: Path, kind: Kind) -> None:
    assert read_file(write_small_set(tmp_path / "s.dts", kind, 7)).num_samples == 7


def test_a_subset_that_claims_the_full_number_has_what_fits(tmp_path: Path) -> None:
    path = write_small_set(tmp_path / "s.dts", Kind.MNIST, 7, claimed=60000)
    assert read_file(path).num_samples == 7


def test_a_subset_with_the_wrong_checksum_is_a_truncated_file(tmp_path: Path) -> None:
    path = write_small_set(tmp_path / "s.dts", Kind.MNIST, 7)
    os.truncate(path, 256 + 5 * 785)
    with pytest.raises(HeaderError, match=r"truncated.*3925 bytes, the 7 samples.*5495"):
        read_file(path)


@pytest.mark.parametrize("keep", [200, 256, 257, 256 + 785, 256 + 7 * 785 - 1])
def test_a_truncated_file_is_named(tmp_path: Path, keep: int) -> None:
    path = write_small_set(tmp_path / "s.dts", Kind.MNIST, 7)
    os.truncate(path, keep)
    with pytest.raises(HeaderError, match="truncated"):
        read_file(path)


def test_more_bytes_than_the_header_counts_are_damage(tmp_path: Path) -> None:
    path = write_small_set(tmp_path / "s.dts", Kind.CIFAR10, 7, claimed=6)
    with pytest.raises(HeaderError, match="damaged"):
        read_file(path)
    path = write_small_set(tmp_path / "s.dts", Kind.CIFAR10, 7)
    with path.open("ab") as file:
        file.write(b"\0")
    with pytest.raises(HeaderError, match="damaged"):
        read_file(path)
