"""What `reader.subset` chooses, and what it refuses."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dtsflow.errors import ConfigError, DtsflowError, PlanError
from dtsflow.reader import subset as module
from dtsflow.reader.subset import Subset, ranks, select
from dtsflow.testing import write_block_volume, write_small_set
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.header import Kind

LABELS = [0, 1, 1, 2, 0, 2, 2, 2, 1, 2, 2, 2]
COUNTS = [4, 0, 5, 3]


def blocks() -> list[list[tuple[bytes, int]]]:
    samples = iter([(b"%d" % i, label) for i, label in enumerate(LABELS)])
    return [[next(samples) for _ in range(count)] for count in COUNTS]


@pytest.fixture
def volumes(tmp_path: Path, write_indexed: Callable[..., Path]) -> VolumeSet:
    """12 samples of class0, class1 and class2."""
    return scan(write_indexed(tmp_path / "x.dts", blocks()))


@pytest.fixture
def unnamed(tmp_path: Path) -> VolumeSet:
    return scan(write_block_volume(tmp_path / "x.dts", blocks()))


def chosen(volumes: VolumeSet, **subset: Any) -> list[int]:
    selection = select(volumes, Subset(**subset))
    assert selection is not None
    found: list[int] = selection.ids.tolist()
    return found


def listed(tmp_path: Path, text: str) -> str:
    path = tmp_path / "ids.txt"
    path.write_text(text)
    return str(path)


def test_nothing_said_chooses_nothing_and_reads_nothing(
    volumes: VolumeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "read_labels", None)
    assert select(volumes, None) is None
    assert select(volumes, Subset()) is None
    assert chosen(volumes, limit=12 - 1)


def test_a_choice_of_all_is_none(volumes: VolumeSet, tmp_path: Path) -> None:
    every = listed(tmp_path, "\n".join(map(str, range(12))))
    for subset in (
        Subset(limit=12),
        Subset(limit=99),
        Subset(fraction=1),
        Subset(classes=(2, 1, 0)),
        Subset(ids=every),
    ):
        assert select(volumes, subset) is None


def test_ids_are_taken_from_a_file_in_any_order(volumes: VolumeSet, tmp_path: Path) -> None:
    assert chosen(volumes, ids=listed(tmp_path, "7\n\n  0 \r\n11")) == [0, 7, 11]


@pytest.mark.parametrize("classes", [("class1", "class0"), (0, 1), ("class0", 1), (1, 0, 1)])
def test_classes_are_named_or_numbered(volumes: VolumeSet, classes: tuple[Any, ...]) -> None:
    assert chosen(volumes, classes=classes) == [0, 1, 2, 4, 8]


@pytest.mark.parametrize("word", [2, "2"])
def test_classes_without_names_have_numbers(unnamed: VolumeSet, word: Any) -> None:
    assert chosen(unnamed, classes=(word,)) == [3, 5, 6, 7, 9, 10, 11]


def test_a_pixel_set_has_classes_by_name_too(tmp_path: Path) -> None:
    volumes = scan(write_small_set(tmp_path / "cifar10_test.dts", Kind.CIFAR10, 60))
    assert chosen(volumes, classes=("cat",)) == chosen(volumes, classes=(3,))


@pytest.mark.parametrize(
    ("fraction", "sizes"),
    [(0.01, [1, 1, 1]), (0.5, [1, 2, 4]), (0.4, [1, 1, 3]), (0.7, [1, 2, 5]), (0.999, [2, 3, 7])],
)
def test_a_fraction_is_the_rounded_share_of_each_class_but_one_at_least(
    unnamed: VolumeSet, fraction: float, sizes: list[int]
) -> None:
    if sizes == [2, 3, 7]:
        assert select(unnamed, Subset(fraction=fraction)) is None
        return
    labels = np.array(LABELS)[chosen(unnamed, fraction=fraction)]
    assert np.bincount(labels, minlength=3).tolist() == sizes


def test_a_limit_takes_so_many_and_no_more(volumes: VolumeSet) -> None:
    assert [len(chosen(volumes, limit=limit)) for limit in (1, 5, 11)] == [1, 5, 11]


def test_each_is_applied_to_what_those_before_it_left(volumes: VolumeSet, tmp_path: Path) -> None:
    ids = listed(tmp_path, "\n".join(map(str, range(1, 10))))
    of_classes = chosen(volumes, ids=ids, classes=("class1", "class2"))
    assert of_classes == [1, 2, 3, 5, 6, 7, 8, 9]
    half = chosen(volumes, ids=ids, classes=("class1", "class2"), fraction=0.5)
    assert set(half) < set(of_classes)
    assert sorted(LABELS[i] for i in half) == [1, 1, 2, 2, 2]
    limited = chosen(volumes, ids=ids, classes=("class1", "class2"), fraction=0.5, limit=2)
    assert limited == sorted(sorted(half, key=lambda i: int(ranks(np.array([i]))[0]))[:2])


def test_a_smaller_part_is_part_of_a_larger_one(unnamed: VolumeSet) -> None:
    fractions = [chosen(unnamed, fraction=k / 20) for k in range(1, 19)]
    limits = [chosen(unnamed, limit=k) for k in range(1, 12)]
    for parts in (fractions, limits):
        assert all(set(small) <= set(large) for small, large in pairwise(parts))


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=80),
    st.floats(0.001, 1),
    st.floats(0.001, 1),
)
def test_shares_of_any_labels_are_right_and_nested(
    labels: list[int], one: float, other: float
) -> None:
    ids, of_each = np.arange(len(labels), dtype=np.int64), np.array(labels, np.int32)
    small, large = (module._share(ids, of_each, f) for f in sorted((one, other)))
    assert set(small.tolist()) <= set(large.tolist())
    assert np.array_equal(small, np.unique(small))
    for label in set(labels):
        wanted = max(1, int(labels.count(label) * min(one, other) + 0.5))
        assert np.count_nonzero(of_each[small] == label) == wanted


def test_the_ranks_are_the_published_sequence() -> None:
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
    assert ranks(np.arange(4)).tolist() == published


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1\n12", r"ids\.txt line 2: there is no sample 12; the data set has 0 to 11"),
        ("1\n\n-1", "line 3: '-1' is no sample_id"),
        ("x", "line 1: 'x' is no sample_id"),
        ("1 2", "'1 2' is no sample_id"),
        ("9" * 19, "'9+' is no sample_id"),
        ("4\n5\n4", "line 3: sample 4 is on line 1 already"),
        ("\n", "lists no sample"),
        ("\udcff", "cannot be read: .*decode"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused_by_its_line(
    volumes: VolumeSet, tmp_path: Path, text: str, why: str
) -> None:
    path = tmp_path / "ids.txt"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DtsflowError, match=f"(?s)^reader.subset.ids: .*{why}"):
        select(volumes, Subset(ids=str(path)))


@pytest.mark.parametrize("path", ["absent.txt", ".", "a\0b", "~no such user/x"])
def test_a_list_that_cannot_be_read_is_refused(volumes: VolumeSet, path: str) -> None:
    with pytest.raises(ConfigError, match=r"^reader\.subset\.ids: '.*cannot be read"):
        select(volumes, Subset(ids=path))


def test_a_class_that_is_not_there_gets_the_nearest_name(
    volumes: VolumeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"reader\.subset\.classes: .*'clas1'.*mean 'class1'"):
        select(volumes, Subset(classes=("clas1",)))
    monkeypatch.setattr(module, "_HINT_LENGTH", 10)
    with pytest.raises(ConfigError, match=r"'dog'\. It has 3; `dtsflow inspect --json` lists them"):
        select(volumes, Subset(classes=("dog",)))


@pytest.mark.parametrize("word", [3, -1, "dog", "-1", "3"])
def test_a_number_out_of_range_is_refused(unnamed: VolumeSet, word: Any) -> None:
    with pytest.raises(ConfigError, match=r"subset\.classes: .* numbers 0 to 2 and no names"):
        select(unnamed, Subset(classes=(0, word)))


def test_a_choice_of_nothing_is_refused(volumes: VolumeSet, tmp_path: Path) -> None:
    ids = listed(tmp_path, "0")
    with pytest.raises(PlanError, match=r"none of 1 samples is of 1, 'class2'.*or other ids"):
        select(volumes, Subset(ids=ids, classes=(1, "class2")))


@pytest.mark.parametrize(
    "subset",
    [
        {"fraction": 0},
        {"fraction": 1.01},
        {"fraction": float("nan")},
        {"fraction": True},
        {"limit": 0},
        {"limit": True},
        {"limit": 2.0},
        {"ids": ""},
        {"classes": ()},
        {"classes": "cat"},
        {"classes": (True,)},
        {"classes": ([],)},
    ],
    ids=str,
)
def test_values_out_of_range_are_refused(subset: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Subset(**subset)
