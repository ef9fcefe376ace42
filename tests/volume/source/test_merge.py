import pytest

from dtsflow.errors import PackError
from dtsflow.volume.source.base import NO_CLASS, Listing, Reject, SourceImage, Stored
from dtsflow.volume.source.select import merge


def listing(classes: str, *names: str, rejects: str = "") -> Listing:
    """Each image's class is its folder."""
    of = tuple(classes.split())
    images = [
        SourceImage(
            name,
            of.index(name.split("/")[0]) if "/" in name else NO_CLASS,
            Stored(name, 0, 1, 1, 0),
        )
        for name in names
    ]
    return Listing(of, tuple(images), tuple(Reject(name, "?") for name in rejects.split()))


def labels_of(merged: Listing) -> list[tuple[str, int]]:
    return [(image.name, image.label) for image in merged.images]


def test_equal_classes_stay_in_their_order() -> None:
    merged = merge([listing("b a", "b/1", rejects="x"), listing("b a", "a/2", "b/0", rejects="w")])
    assert merged.classes == ("b", "a")
    assert labels_of(merged) == [("b/1", 0), ("a/2", 1), ("b/0", 0)]
    assert [reject.name for reject in merged.rejects] == ["x", "w"]


def test_other_classes_are_united_by_name() -> None:
    merged = merge([listing("b c", "c/1", "stray"), listing("a c", "a/1", "c/2")])
    assert merged.classes == ("a", "b", "c")
    assert labels_of(merged) == [("c/1", 2), ("stray", NO_CLASS), ("a/1", 0), ("c/2", 2)]


def test_numbers_are_united_as_numbers() -> None:
    short, long = (" ".join(map(str, range(most))) for most in (3, 12))
    merged = merge([listing(short, "2/1"), listing(long, "10/1", "2/2")])
    assert merged.classes == tuple(map(str, range(12)))
    assert labels_of(merged) == [("2/1", 2), ("10/1", 10), ("2/2", 2)]


def test_numbers_and_names_are_not_guessed_together() -> None:
    with pytest.raises(PackError, match=r"source 1 \(1/1\) has the class numbers 0 to 1, another"):
        merge([listing("ant bee", "ant/1"), listing("0 1", "1/1")])


def test_of_two_images_with_one_name_the_later_gets_another() -> None:
    merged = merge([listing("a", "a/1", "a/1-1"), listing("a", "a/1"), listing("a", "a/1", "2-x")])
    assert [image.name for image in merged.images] == [
        "a/1",
        "a/1-1",
        "a/1-1-1",
        "a/2-1",
        "2-x",
    ]


def test_one_source_stays_as_it_is() -> None:
    one = listing("a b", "b/1", rejects="r")
    assert merge([one]) == one
