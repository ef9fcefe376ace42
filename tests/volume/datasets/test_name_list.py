import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.volume.datasets.images import NameList

NAMES = st.lists(st.binary(max_size=12).filter(lambda name: b"\0" not in name).map(os.fsdecode))


@given(NAMES)
def test_it_is_the_list_of_names_it_was_made_of(names: list[str]) -> None:
    """Also of names that are no text, which a file may have."""
    found = NameList(iter(names))
    assert len(found) == len(names)
    assert list(found) == names
    assert [found[number] for number in range(len(names))] == names
    assert list(found[1::2]) == names[1::2]
    assert list(found.taken(np.arange(len(names))[::-1])) == names[::-1]


@pytest.mark.parametrize("number", [-1, 2])
def test_a_number_that_no_name_has_is_refused(number: int) -> None:
    with pytest.raises(IndexError, match=f"name {number} of 2"):
        NameList(["a", "b"])[number]
