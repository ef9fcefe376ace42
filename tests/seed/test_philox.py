import numpy as np
import pytest

from dtsflow.seed.address import philox4x32

# The known-answer vectors that Random123 publishes for philox4x32 with 10 rounds.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_the_published_vectors_come_out(counter: str, key: str, answer: str) -> None:
    low, high = words(key)
    out = philox4x32(np.array(words(counter), np.uint32), (low, high))
    assert out.tolist() == words(answer)


def test_many_counters_give_what_each_gives_alone() -> None:
    counters = np.arange(3 * 5 * 4, dtype=np.uint32).reshape(3, 5, 4)
    together = philox4x32(counters, (7, 8))
    assert together.shape == (3, 5, 4)
    assert together.dtype == np.uint32
    for i in range(3):
        for j in range(5):
            assert np.array_equal(together[i, j], philox4x32(counters[i, j], (7, 8)))


def test_the_result_does_not_depend_on_where_a_slab_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = np.arange(100, dtype=np.uint32).reshape(25, 4)
    whole = philox4x32(counters, (1, 2))
    monkeypatch.setattr("dtsflow.seed.address._SLAB", 8)
    assert np.array_equal(philox4x32(counters, (1, 2)), whole)


def test_no_counters_give_no_words() -> None:
    assert philox4x32(np.empty((0, 3, 4), np.uint32), (1, 2)).shape == (0, 3, 4)


def test_the_counters_are_left_alone() -> None:
    counters = np.ones((6, 4), np.uint32)
    philox4x32(counters, (1, 2))
    assert (counters == 1).all()


def test_counters_may_be_a_view_with_any_strides() -> None:
    counters = np.arange(48, dtype=np.uint32).reshape(4, 12)[:, ::3]
    expected = philox4x32(np.ascontiguousarray(counters), (1, 2))
    assert np.array_equal(philox4x32(counters, (1, 2)), expected)
