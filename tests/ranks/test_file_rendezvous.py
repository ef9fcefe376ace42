from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dtsflow.errors import RanksError
from dtsflow.ranks.file_rendezvous import FileRendezvous, read_note, write_note


def meet(folder: Path, size: int, rounds: int = 3) -> list[list[list[str]]]:
    """What each of `size` processes, as threads, is told in each round."""

    def take_part(index: int) -> list[list[str]]:
        meeting = FileRendezvous(folder, index, size)
        told = [meeting.gather(f"{index} in {n}", 20) for n in range(rounds)]
        assert meeting.session
        return told

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(take_part, range(size)))


def come(folder: Path, index: int, text: str) -> list[str]:
    return FileRendezvous(folder, index, 3).gather(text, 20)


def expected(size: int, rounds: int = 3) -> list[list[list[str]]]:
    return [[[f"{i} in {n}" for i in range(size)] for n in range(rounds)]] * size


def test_all_are_told_the_texts_of_all_in_order(tmp_path: Path) -> None:
    assert meet(tmp_path, 5) == expected(5)


def test_what_an_earlier_start_left_is_not_taken_for_its_own(tmp_path: Path) -> None:
    for _ in range(3):
        assert meet(tmp_path, 3) == expected(3)


def test_a_rank_that_was_only_an_old_file_is_welcomed_once_it_comes(tmp_path: Path) -> None:
    meet(tmp_path, 3)
    old = read_note(tmp_path / "rank.2")
    assert old is not None
    with ThreadPoolExecutor(3) as pool:
        first = [pool.submit(come, tmp_path, index, "a") for index in (0, 1)]
        while (read_note(tmp_path / "all") or {}).get("welcome", {}).get("2") != old["word"]:
            assert not first[0].done()
        assert come(tmp_path, 2, "b") == ["a", "a", "b"]
        assert [one.result() for one in first] == [["a", "a", "b"]] * 2


def test_rank_0_names_who_did_not_come(tmp_path: Path) -> None:
    write_note(tmp_path / "rank.3", {"word": "old", "session": "", "round": 0, "text": ""})
    with pytest.raises(RanksError, match="Rank 0 of 4 waited in vain for ranks 1-3"):
        FileRendezvous(tmp_path, 0, 4).gather("", 0.05)


def test_the_others_name_rank_0_and_the_folder(tmp_path: Path) -> None:
    with pytest.raises(RanksError, match="Rank 1 of 2 waited in vain for rank 0") as caught:
        FileRendezvous(tmp_path, 1, 2).gather("", 0.05)
    assert str(tmp_path) in str(caught.value)


def test_who_leaves_takes_its_word_back(tmp_path: Path) -> None:
    FileRendezvous(tmp_path, 1, 2).leave()
    assert not list(tmp_path.iterdir())
