from pathlib import Path

import numpy as np
import pytest

from dtsflow.errors import BlockError
from dtsflow.volume.format.header import Kind
from dtsflow.volume.format.pixel_file import SMALL_SETS


def test_names_are_the_published_ones() -> None:
    fine = SMALL_SETS[Kind.CIFAR100].class_names
    assert len(fine) == len(set(fine)) == 100
    assert list(fine) == sorted(fine)
    assert (fine[0], fine[35], fine[99]) == ("apple", "girl", "worm")
    assert SMALL_SETS[Kind.CIFAR10].class_names[3] == "cat"
    assert SMALL_SETS[Kind.MNIST].class_names == tuple("0123456789")


def test_labels_come_first_and_pixels_after_them() -> None:
    payload = np.array([3, 0, 9, 1, 2, 3], np.uint8)
    index = SMALL_SETS[Kind.MNIST].index(payload, 3, Path("m.dts"))
    assert index.labels.tolist() == [3, 0, 9]
    assert index.offsets.tolist() == [3, 3 + 784, 3 + 2 * 784]
    assert index.sizes.tolist() == [784] * 3


def test_a_label_outside_the_classes_is_refused() -> None:
    with pytest.raises(BlockError, match=r"m\.dts: sample 1 has label 10, the set has 10 classes"):
        SMALL_SETS[Kind.MNIST].index(np.array([9, 10], np.uint8), 2, Path("m.dts"))
