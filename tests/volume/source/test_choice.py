from pathlib import Path

import pytest

from dtsflow.errors import PackError
from dtsflow.volume.source.base import Listing, Reject, SourceImage, Stored
from dtsflow.volume.source.select import Choice, choose

NOWHERE = Stored("nowhere", 0, 1, 1, 0)
CLASSES = ("ant", "bee", "cat")


def listing(per_class: int = 20) -> Listing:
    """In no sorted order, as samples of a volume are."""
    images = [
        SourceImage(f"{CLASSES[label]}/{number}.jpg", label, NOWHERE)
        for number in reversed(range(per_class))
        for label in (2, 0, 1)
    ]
    return Listing(CLASSES, tuple(images), (Reject("r", "?"),))


def names_of(source: Listing, choice: Choice) -> list[str]:
    return [image.name for image in choose(source, choice).listing.images]


def test_no_choice_is_everything() -> None:
    chosen = choose(listing(), Choice())
    assert (chosen.listing, chosen.left_out) == (listing(), 0)


def test_only_some_classes_keep_their_numbers() -> None:
    chosen = choose(listing(2), Choice(only=("cat", "bee")))
    assert chosen.listing.classes == CLASSES
    assert [(image.name, image.label) for image in chosen.listing.images] == [
        ("cat/1.jpg", 2),
        ("bee/1.jpg", 1),
        ("cat/0.jpg", 2),
        ("bee/0.jpg", 1),
    ]
    assert (chosen.left_out, chosen.listing.rejects) == (2, (Reject("r", "?"),))


def test_an_unknown_class_is_answered_with_the_nearest() -> None:
    with pytest.raises(PackError, match="no class 'cart' among 3; did you mean 'cat'"):
        choose(listing(), Choice(only=("ant", "cart")))
    with pytest.raises(PackError, match="the source has no classes"):
        choose(Listing((), ()), Choice(only=("ant",)))


def test_ids_count_in_the_order_of_the_source(tmp_path: Path) -> None:
    ids = tmp_path / "ids.txt"
    ids.write_text("5\n0\r\n1")
    chosen = choose(listing(2), Choice(ids=ids))
    assert [image.name for image in chosen.listing.images] == [
        "cat/1.jpg",
        "ant/1.jpg",
        "bee/0.jpg",
    ]
    assert chosen.left_out == 3


def test_ids_count_before_labels_leave_images_out(tmp_path: Path) -> None:
    ids, labels = tmp_path / "ids.txt", tmp_path / "labels.csv"
    ids.write_text("1\n5\n")
    labels.write_text("ant/1.jpg,x\nbee/1.jpg,y\n")
    chosen = choose(listing(2), Choice(ids=ids, labels=labels))
    assert [(image.name, image.label) for image in chosen.listing.images] == [("ant/1.jpg", 0)]
    assert (chosen.left_out, len(chosen.listing.rejects)) == (1, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0\n6\n", "line 2 is '6'; an id is a whole number from 0 to 5"),
        ("-1\n", "line 1 is '-1'"),
        ("1.0\n", "line 1"),
        ("1" * 5000 + "\n", "line 1"),
        ("1\n\n2\n", "line 2 is blank"),
        ("1\n2\n1\n", "line 3: the id 1 comes twice"),
        ("", "the subset leaves none"),
    ],
)
def test_bad_ids_are_refused_by_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "ids.txt").write_text(text)
    with pytest.raises(PackError, match=message):
        choose(listing(2), Choice(ids=tmp_path / "ids.txt"))


def test_a_fraction_is_the_same_share_of_each_class() -> None:
    chosen = choose(listing(20), Choice(fraction=0.25))
    assert [sum(one.label == label for one in chosen.listing.images) for label in range(3)] == [
        5,
        5,
        5,
    ]
    assert chosen.left_out == 45


def test_the_smallest_fraction_leaves_each_class_an_image() -> None:
    assert len(names_of(listing(20), Choice(fraction=1e-9))) == 3


def test_a_subset_keeps_the_order_of_the_source() -> None:
    every = names_of(listing(), Choice())
    for choice in (Choice(fraction=0.5), Choice(limit=30)):
        names = names_of(listing(), choice)
        assert names == [name for name in every if name in set(names)]


def test_what_a_share_takes_depends_on_names_only() -> None:
    source = listing()
    turned = Listing(source.classes, source.images[::-1])
    for choice in (Choice(fraction=0.3), Choice(limit=7)):
        assert sorted(names_of(source, choice)) == sorted(names_of(turned, choice))


def test_these_images_are_taken_on_every_machine() -> None:
    assert names_of(listing(5), Choice(limit=4)) == [
        "cat/3.jpg",
        "ant/2.jpg",
        "bee/2.jpg",
        "bee/0.jpg",
    ]


def test_a_smaller_share_is_part_of_a_larger() -> None:
    assert set(names_of(listing(), Choice(fraction=0.2))) < set(
        names_of(listing(), Choice(fraction=0.6))
    )
    assert set(names_of(listing(), Choice(limit=5))) < set(names_of(listing(), Choice(limit=9)))


def test_a_limit_above_all_is_all() -> None:
    assert choose(listing(2), Choice(limit=100)).left_out == 0


def test_all_that_is_given_counts_together(tmp_path: Path) -> None:
    classes = tmp_path / "classes.txt"
    classes.write_text("cat\nbee\nant\n")
    chosen = choose(listing(20), Choice(classes=classes, only=("ant",), fraction=0.5, limit=3))
    assert chosen.listing.classes == ("cat", "bee", "ant")
    assert [image.label for image in chosen.listing.images] == [2, 2, 2]
    assert chosen.left_out == 57


@pytest.mark.parametrize("fraction", [0, -0.5, 1.01, float("nan")])
def test_a_fraction_outside_is_refused(fraction: float) -> None:
    with pytest.raises(PackError, match="more than 0 and at most 1"):
        Choice(fraction=fraction)


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(PackError, match="limit of 0"):
        Choice(limit=0)
