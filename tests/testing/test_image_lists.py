"""That what an image loader does wrong is found, and a right one passes."""

from pathlib import Path

import numpy as np
import pytest

from dtsflow.config.configurable import configurable
from dtsflow.errors import PlanError, SetError
from dtsflow.spec import Field
from dtsflow.tensor.dtype import DType
from dtsflow.testing import check_image_loader
from dtsflow.volume.data_set import Column
from dtsflow.volume.datasets.image_list import ImageList

calls: list[str] = []


@configurable
class Pictures:
    """Two files of a folder, listed rightly or wrongly."""

    folder: str
    how: str = "rightly"

    def list_images(self) -> ImageList:
        calls.append(self.how)
        names = ["1.jpg", "2.jpg"]
        ages = np.arange(2)
        if self.how == "other_names" and len(calls) % 2:
            names.reverse()
        if self.how == "other_values":
            ages += len(calls)
        return ImageList(
            Path(self.folder),
            names=names,
            labels=[0, 2] if self.how == "no_class" else [0, -1],
            classes=("one",),
            where=lambda number: f"line {0 if self.how == 'one_place' else number}",
            columns=(Column(Field("age", (), DType.INT64), ages),),
        )


@pytest.fixture
def folder(tmp_path: Path) -> str:
    for name in ("1.jpg", "2.jpg"):
        (tmp_path / name).write_bytes(b"any")
    calls.clear()
    return str(tmp_path)


def test_an_image_loader_that_keeps_its_contract_passes(folder: str) -> None:
    found = check_image_loader(Pictures(folder))
    assert list(found.runs.names) == ["1.jpg", "2.jpg"]
    assert found.columns[0].values.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("other_names", "Pictures lists others each time"),
        ("other_values", "Pictures: labels or columns differ each time"),
        ("one_place", "Pictures calls two entries by one place"),
    ],
)
def test_one_that_breaks_it_is_told_how(folder: str, how: str, told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        check_image_loader(Pictures(folder, how))


def test_what_a_run_would_refuse_is_refused(folder: str) -> None:
    with pytest.raises(SetError, match="line 1: 2 is no label"):
        check_image_loader(Pictures(folder, "no_class"))
    with pytest.raises(PlanError, match="field 'age': a view or a batch operation makes"):
        check_image_loader(Pictures(folder), others=("age",))
