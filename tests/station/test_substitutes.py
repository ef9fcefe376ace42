from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtsflow.errors import ClosedError
from dtsflow.reader.random_access import SingleSamples
from dtsflow.reader.rows import Selection
from dtsflow.station.bad_samples import Substitutes
from dtsflow.testing import damage, write_block_volume
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.header import BLOCK_BYTES

BLOCKS = [[0, 1, 2], [], [3, 4], [5, 6, 7, 8]]


@pytest.fixture
def volumes(tmp_path: Path) -> VolumeSet:
    blocks = [[(b"sample %d" % i, i) for i in ids] for ids in BLOCKS]
    return scan(write_block_volume(tmp_path / "x.dts", blocks))


def never() -> bool:
    return False


def ids_of(
    substitutes: Substitutes, block: int, place: int, *, is_damaged: bool = False
) -> list[int]:
    found = substitutes.instead_of(block, place, is_damaged=is_damaged, stop=never)
    return [int(sample.ids[0]) for sample in found]


@pytest.mark.parametrize(
    ("block", "place", "expected"),
    [
        (0, 0, [1, 2, 3, 4, 5, 6, 7, 8]),
        (0, 2, [0, 1, 3, 4, 5, 6, 7, 8]),
        (2, 1, [3, 5, 6, 7, 8, 0, 1, 2]),
        (3, 1, [7, 8, 5, 0, 1, 2, 3, 4]),
    ],
)
def test_candidates_come_from_its_block_in_a_circle_then_from_the_next_ones(
    volumes: VolumeSet, block: int, place: int, expected: list[int]
) -> None:
    assert ids_of(Substitutes(volumes), block, place) == expected


@pytest.mark.parametrize(
    ("block", "place", "expected"),
    [(0, 0, [2, 3, 6, 8]), (2, 0, [6, 8, 0, 2]), (3, 3, [6, 0, 2, 3]), (0, 1, [2, 0, 3, 6, 8])],
)
def test_of_a_selection_no_other_sample_comes_into_question(
    volumes: VolumeSet, block: int, place: int, expected: list[int]
) -> None:
    selection = Selection.of(volumes, np.array([0, 2, 3, 6, 8]))
    assert ids_of(Substitutes(volumes, selection), block, place) == expected


def test_a_block_is_known_that_has_all_samples_in_question(volumes: VolumeSet) -> None:
    selection = Selection.of(volumes, np.array([6, 8]))
    assert Substitutes(volumes, selection).are_all_in(3)
    assert not Substitutes(volumes, selection).are_all_in(2)
    assert not Substitutes(volumes).are_all_in(3)


def test_candidates_carry_their_own_bytes_and_labels(volumes: VolumeSet) -> None:
    for sample in Substitutes(volumes).instead_of(2, 0, is_damaged=False, stop=never):
        assert bytes(sample.data(0)) == b"sample %d" % sample.ids[0]
        assert sample.labels.tolist() == sample.ids.tolist()
        assert sample.stands_for is None


def test_of_its_own_damaged_block_there_are_none(volumes: VolumeSet) -> None:
    assert ids_of(Substitutes(volumes), 2, 1, is_damaged=True) == [5, 6, 7, 8, 0, 1, 2]


def test_another_damaged_block_is_left_out_and_looked_at_once(
    volumes: VolumeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(volumes.files[0].path, 3 * BLOCK_BYTES + 4, b"\xff")
    read: list[tuple[int, int]] = []
    reading = SingleSamples.read

    def recording(self: SingleSamples, block: int, place: int, **stop: Any) -> Any:
        read.append((block, place))
        return reading(self, block, place, **stop)

    monkeypatch.setattr(SingleSamples, "read", recording)
    substitutes = Substitutes(volumes)
    for _ in range(3):
        assert ids_of(substitutes, 0, 0) == [1, 2, 5, 6, 7, 8]
    assert [place for place in read if place[0] == 2] == [(2, 0)]


def test_what_was_given_up_is_offered_no_more(volumes: VolumeSet) -> None:
    substitutes = Substitutes(volumes)
    for sample_id in (1, 3, 4, 8):
        substitutes.give_up(sample_id)
    assert ids_of(substitutes, 0, 0) == [2, 5, 6, 7]
    assert ids_of(substitutes, 3, 0) == [6, 7, 0, 2]


def test_nothing_is_read_before_it_is_asked_for(
    volumes: VolumeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    reading = SingleSamples.read

    def recording(self: SingleSamples, block: int, place: int, **stop: Any) -> Any:
        read.append(place)
        return reading(self, block, place, **stop)

    monkeypatch.setattr(SingleSamples, "read", recording)
    candidates = Substitutes(volumes).instead_of(0, 0, is_damaged=False, stop=never)
    next(candidates)
    assert read == [1]


def test_a_search_ends_with_its_pass(volumes: VolumeSet) -> None:
    asked = iter([False, False, True])
    candidates = Substitutes(volumes).instead_of(0, 0, is_damaged=False, stop=lambda: next(asked))
    assert int(next(candidates).ids[0]) == 1
    with pytest.raises(ClosedError, match="a substitute was looked for"):
        list(candidates)


def test_the_one_sample_of_a_set_has_nothing_in_its_place(tmp_path: Path) -> None:
    volumes = scan(write_block_volume(tmp_path / "one.dts", [[], [(b"x", 0)]]))
    assert np.array_equal(volumes.counts, [0, 1])
    assert ids_of(Substitutes(volumes), 1, 0) == []
