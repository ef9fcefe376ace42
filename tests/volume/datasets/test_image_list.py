from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtsflow.errors import SetError
from dtsflow.spec import Field
from dtsflow.tensor.dtype import DType
from dtsflow.volume.data_set import Column
from dtsflow.volume.datasets.image_list import ImageList
from dtsflow.volume.source.base import NO_CLASS

AGE = Field("age", (), DType.INT32)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "a").mkdir(parents=True)
    for name in ("a/1.jpg", "a/2.jpg", "3.jpg"):
        (folder / name).write_bytes(name.encode())
    (tmp_path / "outside.jpg").write_bytes(b"x")
    return folder


def listed(root: Path, names: Sequence[str], labels: Sequence[int] = (), **more: Any) -> ImageList:
    labels = labels or [0] * len(names)
    return ImageList(root, names, labels, ("x", "y"), lambda number: f"list:{number + 1}", **more)


def test_ids_are_places_in_the_list(root: Path) -> None:
    column = Column(AGE, np.array([7, 8]))
    found = listed(root, ["a/2.jpg", "./3.jpg"], [1, -1], columns=(column,)).image_set()
    assert list(found.runs.names) == ["a/2.jpg", "3.jpg"]
    assert found.labels.tolist() == [1, -1]
    assert found.class_names == ("x", "y")
    assert found.columns == (column,)
    assert found.where(0) == str(root / "a/2.jpg")
    assert found.runs.archives == ()


def test_a_pack_gets_the_same_and_the_reason_of_a_missing_label(root: Path) -> None:
    listing = listed(root, ["3.jpg", "a/1.jpg"], [-1, 1]).listing()
    assert [image.label for image in listing.images] == [NO_CLASS, 1]
    assert listing.images[0].why_no_class == "list:1 gives it no label"
    assert [image.stored.read() for image in listing.images] == [b"3.jpg", b"a/1.jpg"]
    assert listing.has_label_fields
    assert listing.root == root


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("a/9.jpg", r"'.*root/a/9\.jpg' cannot be found: No such file"),
        ("a", r".*root/a is no file"),
        ("/etc/hostname", r"'/etc/hostname' is an absolute name"),
        ("../outside.jpg", r"'\.\./outside\.jpg' is a name that leads out of its folder"),
        ("a/../../outside.jpg", "a name that leads out of its folder"),
        ("3.jpg\0", "a name with a zero byte"),
        ("\ud800", "cannot be found: .*surrogates"),
        ("", "'' is no path of an image"),
        ("./", r"'\./' is no path of an image"),
        ("./3.jpg", r"3\.jpg is listed before, in list:1"),
    ],
)
def test_a_wrong_path_is_named_with_its_entry(root: Path, name: str, told: str) -> None:
    with pytest.raises(SetError, match=f"^list:2: .*{told}"):
        listed(root, ["3.jpg", name]).listing()


@pytest.mark.parametrize("label", [2, -2])
def test_a_label_that_is_no_class_is_named_with_its_entry(root: Path, label: int) -> None:
    with pytest.raises(SetError, match=f"^list:1: {label} is no label: there are 2 classes"):
        listed(root, ["3.jpg"], [label]).image_set()


def test_an_empty_list_and_one_of_other_lengths_are_refused(root: Path) -> None:
    with pytest.raises(SetError, match="no image is listed"):
        listed(root, []).listing()
    with pytest.raises(SetError, match="2 images are listed, and 3 of 'labels'"):
        listed(root, ["3.jpg", "a/1.jpg"], [0, 1, 0]).listing()
    with pytest.raises(SetError, match="1 images are listed, and 2 of 'age'"):
        listed(root, ["3.jpg"], columns=(Column(AGE, np.array([1, 2])),)).listing()


def test_a_column_is_read_only_and_of_its_fields_type() -> None:
    given = np.array([[1, 2], [3, 4], [5, 6]])
    column = Column(Field("pair", (2,), DType.FP32), given)
    given[0, 0] = 9
    assert column.values.dtype == np.float32
    assert column.values[0].tolist() == [1, 2]
    assert not column.values.flags.writeable
    assert column.taken(np.array([2, 0])).values.tolist() == [[5, 6], [1, 2]]
    with pytest.raises(SetError, match=r"'pair' has values of shape \(3,\), and its rows are"):
        Column(Field("pair", (2,), DType.FP32), np.zeros(3))


def test_two_columns_differ_in_their_fact_by_name_type_or_value() -> None:
    def fact(name: str, dtype: DType, *values: int) -> bytes:
        return Column(Field(name, (), dtype), np.array(values)).fact()

    facts = {fact("a", DType.INT32, 1), fact("b", DType.INT32, 1), fact("a", DType.INT64, 1)}
    assert len(facts | {fact("a", DType.INT32, 2), fact("a", DType.INT32, 1, 0)}) == 5
