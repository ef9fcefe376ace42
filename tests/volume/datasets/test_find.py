from pathlib import Path

import pytest

from dtsflow.errors import SetError
from dtsflow.volume.datasets.scan import find


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.dts", "a.dts", "[x].dts", ".a.dts.0000.part", ".hidden.dts", "a.txt"):
        (tmp_path / name).touch()
    return tmp_path


def test_a_folder_names_its_volumes(folder: Path) -> None:
    assert [path.name for path in find(folder)] == ["[x].dts", "a.dts", "b.dts"]


def test_a_pattern_names_what_it_matches(folder: Path) -> None:
    assert [path.name for path in find(str(folder / "?.dts"))] == ["a.dts", "b.dts"]


def test_a_file_is_itself_even_if_it_looks_like_a_pattern(folder: Path) -> None:
    assert find(folder / "[x].dts") == [folder / "[x].dts"]


def test_nothing_found_says_what_was_looked_for(folder: Path) -> None:
    with pytest.raises(SetError, match=r"looked for .*none-\*\.dts"):
        find(folder / "none-*.dts")
    (folder / "empty").mkdir()
    with pytest.raises(SetError, match=r"looked for \*\.dts in the folder .*empty"):
        find(folder / "empty")
    with pytest.raises(SetError, match="no such file"):
        find(folder / "missing.dts")
