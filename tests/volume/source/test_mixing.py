import hashlib
import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dtsflow.volume.source.select import mixing_key, mixing_number


def test_the_number_is_the_digest_that_volumes_were_packed_with() -> None:
    # Another one would give every volume another order.
    assert mixing_number("a/1.jpg") == int.from_bytes(
        hashlib.blake2b(b"a/1.jpg", digest_size=8).digest(), "big"
    )
    assert mixing_number("") == 0xE4A6A0577479B2B4


@given(st.text(st.characters(exclude_categories=())))
def test_every_name_has_a_number_even_one_that_is_no_text(name: str) -> None:
    assert 0 <= mixing_number(name) < 1 << 64


def test_names_that_are_no_text_differ() -> None:
    names = ["a\udcff", "a\udcfe", "a\ud800", "a\uffff", "aÿ", "a\udcc3\udcbf"]
    assert len({mixing_number(name) for name in names}) == len(names)


def test_equal_numbers_would_go_by_name() -> None:
    number, name = mixing_key("b/2.jpg")
    assert (number, name) == (mixing_number("b/2.jpg"), "b/2.jpg")


def test_the_order_has_nothing_to_do_with_the_class() -> None:
    names = [f"{folder}/{number:04d}.jpg" for folder in "abcd" for number in range(500)]
    ordered = sorted(names, key=mixing_key)
    for start in range(0, len(ordered), 200):
        shares = Counter(name[0] for name in ordered[start : start + 200])
        assert min(shares[folder] for folder in "abcd") >= 25
    switches = sum(a[0] != b[0] for a, b in itertools.pairwise(ordered))
    assert switches > 1400
