from dataclasses import replace
from typing import Any

import numpy as np

from dtsflow.arena.batch import Batch

PADDED = np.arange(32, dtype=np.float16).reshape(2, 2, 2, 4)
HERE = Batch(
    images=PADDED[..., :3],
    padded=PADDED,
    labels=np.array([4, -1], np.int32),
    valid=np.array([True, False]),
    sample_ids=np.array([7, -1]),
    phase="train",
    epoch=0,
    step=1,
    first_row=0,
    zone=1,
)


class OnDevice:
    """What is asked of an array of a device."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.shape = array.shape
        self._array = array

    def get(self) -> np.ndarray[Any, Any]:
        return self._array.copy()


def test_a_batch_of_the_host_is_on_the_host_as_it_is() -> None:
    assert HERE.on_host() is HERE


def test_a_batch_of_a_device_is_copied_to_the_host() -> None:
    there = replace(
        HERE,
        images=OnDevice(HERE.images),
        padded=OnDevice(HERE.padded),
        labels=OnDevice(HERE.labels),
    )
    found = there.on_host()
    assert np.array_equal(found.images, HERE.images)
    assert np.array_equal(found.padded, HERE.padded)
    assert np.array_equal(found.labels, HERE.labels)
    assert found.valid is HERE.valid


def test_a_compact_batch_has_the_valid_rows_alone() -> None:
    found = HERE.compact()
    assert found.labels.tolist() == [4]
    assert found.sample_ids.tolist() == [7]
    assert np.array_equal(found.images, HERE.images[:1])
