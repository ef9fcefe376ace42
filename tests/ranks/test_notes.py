from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from dtsflow.ranks.file_rendezvous import read_note, write_first, write_note


def test_a_note_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "note"
    assert read_note(path) is None
    write_note(path, {"a": 1})
    write_note(path, {"b": "é"})
    assert read_note(path) == {"b": "é"}
    assert [left.name for left in tmp_path.iterdir()] == ["note"]


def test_one_is_the_first(tmp_path: Path) -> None:
    folders = [tmp_path / str(i) for i in range(4)]
    note = tmp_path / "note"
    for folder in folders:
        folder.mkdir()
    assert [write_first(note, {"by": i}) for i in range(4)] == [True, False, False, False]
    assert read_note(note) == {"by": 0}
    assert len(list(tmp_path.iterdir())) == 5


def test_a_reader_never_finds_half_a_note(tmp_path: Path) -> None:
    path, long = tmp_path / "note", "x" * 100_000
    write_note(path, {"text": long})
    with ThreadPoolExecutor(1) as pool:
        writing = pool.map(partial(write_note, path), [{"text": long}] * 100)
        for _ in range(100):
            assert read_note(path) == {"text": long}
        list(writing)
