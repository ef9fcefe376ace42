from functools import cache

import numpy as np
import pytest

from dtsflow import po
from dtsflow.cli.bench_cost import BatchOperation, Work, mixed
from dtsflow.cli.bench_pictures import example, names, photos
from dtsflow.po.operation import Operation

# They take longer to paint than to work on.
painted = cache(photos)


def test_every_exported_class_but_the_chain_is_listed() -> None:
    assert {"Normalize", "Mixup", "DoNothing"} <= set(names())
    assert "Chain" not in names()
    assert set(names()) <= set(po.__all__)


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("size", [(1, 1), (13, 9)])
def test_every_exported_operation_has_an_example_that_runs(
    name: str, size: tuple[int, int]
) -> None:
    # A new operation that needs arguments has to get some in po_examples.py.
    one = example(name, *size)
    images = painted(2, *size, 3).copy()
    assert one.label.startswith(f"{name}(")
    if isinstance(one.operation, Operation):
        assert len(Work([one.operation], list(images)).results()) == 2
    else:
        assert isinstance(one.operation, BatchOperation)
        assert mixed(one.operation, images).shape == images.shape


def test_what_is_left_to_chance_happens_in_an_example() -> None:
    images = photos(3, 16, 16, 3)
    for name in ("RandomHorizontalFlip", "RandomVerticalFlip", "RandomErasing"):
        for before, after in zip(
            images, Work([example(name, 16, 16).operation], list(images)).results(), strict=True
        ):
            assert (before != after).any(), name


def test_photos_differ_and_are_always_the_same() -> None:
    made = photos(3, 20, 30, 3)
    assert made.shape == (3, 20, 30, 3)
    assert (made == photos(3, 20, 30, 3)).all()
    assert (made[0] != made[1]).any()
    gray = photos(3, 20, 30, 1)
    assert gray.shape == (3, 20, 30, 1)
    assert np.abs(gray.mean() - made.mean()) < 32
