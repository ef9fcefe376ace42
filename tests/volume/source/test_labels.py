from pathlib import Path

import pytest

from dtsflow.errors import PackError
from dtsflow.volume.source.base import NO_CLASS, Listing, Reject, SourceImage, Stored
from dtsflow.volume.source.labels import label_by, number_by, read_classes, read_labels

NOWHERE = Stored("nowhere", 0, 1, 1, 0)
CSV = Path("some/labels.csv")
FILE = Path("some/classes.txt")


def listing(
    *names: str, classes: tuple[str, ...] = (), labels: tuple[int, ...] = (), rejects: str = ""
) -> Listing:
    given = labels or (NO_CLASS,) * len(names)
    images = [SourceImage(name, label, NOWHERE) for name, label in zip(names, given, strict=True)]
    return Listing(classes, tuple(images), tuple(Reject(name, "?") for name in rejects.split()))


def labels_of(listed: Listing) -> list[tuple[str, int]]:
    return [(image.name, image.label) for image in listed.images]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.txt"


def test_classes_are_the_lines_in_their_order(path: Path) -> None:
    path.write_bytes("\ufeffzebra\r\ntench, Tinca tinca\nÄhre/x y".encode())
    assert read_classes(path) == ("zebra", "tench, Tinca tinca", "Ähre/x y")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "file.txt is empty"),
        (b"\n", "line 1 is blank"),
        (b"a\n\nb\n", "line 2 is blank"),
        (b"a\n \t\r\n", "line 2 is blank"),
        (b"a\nb\na\n", "line 3 is 'a', as line 1 is"),
        (b"a\n\xff\n", "no UTF-8 text: byte 2"),
    ],
)
def test_a_bad_file_of_classes_is_refused_by_line(path: Path, data: bytes, message: str) -> None:
    path.write_bytes(data)
    with pytest.raises(PackError, match=message):
        read_classes(path)


def test_a_file_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(PackError, match=r"file\.txt cannot be read: No such file"):
        read_classes(path)
    with pytest.raises(PackError, match=r"file\.txt cannot be read: No such file"):
        read_labels(path)


@pytest.mark.parametrize(
    "heading", ["", "id,breed\n", "\ufeffFileName,label,more\r\n", "Path,x\n\n"]
)
def test_labels_are_the_first_two_columns(path: Path, heading: str) -> None:
    path.write_text(f'{heading}a.jpg,cat\r\n"b, c.jpg", "big dog",9,9\n\n', encoding="utf-8")
    assert read_labels(path) == {"a.jpg": "cat", "b, c.jpg": "big dog"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no file"),
        ("file,class\n", "names no file"),
        ("a.jpg,cat\nb.jpg\n", r"line 2 is 'b\.jpg'; it needs"),
        ("a.jpg,cat\nb.jpg,\n", "line 2 is"),
        (",cat\n", "line 1 is ',cat'"),
        ("a;cat\n", "line 1 is 'a;cat'"),
        ("a,cat\na,cat\na,dog\n", "line 3 gives a the class 'dog', a row before says 'cat'"),
        ('a,"cat\n', "line 1 is no CSV"),
    ],
)
def test_a_bad_csv_is_refused_by_line(path: Path, text: str, message: str) -> None:
    path.write_text(text)
    with pytest.raises(PackError, match=message):
        read_labels(path)


def test_a_row_means_a_name_a_base_name_or_a_stem() -> None:
    labels = {"a/1.jpg": "x", "2.png": "y", "v1.5": "z", "elsewhere/4.jpeg": "x"}
    result = label_by(listing("a/1.jpg", "a/2.png", "b/v1.5.JPEG", "4.png"), labels, CSV)
    assert result.classes == ("x", "y", "z")
    assert labels_of(result) == [("a/1.jpg", 0), ("a/2.png", 1), ("b/v1.5.JPEG", 2), ("4.png", 0)]


def test_a_whole_name_goes_before_a_base_name() -> None:
    result = label_by(listing("1.jpg", "a/1.jpg"), {"1.jpg": "x", "a/1.jpg": "y"}, CSV)
    assert labels_of(result) == [("1.jpg", 0), ("a/1.jpg", 1)]


@pytest.mark.parametrize("row", ["1.jpg", "1", "c/1.jpg"])
def test_a_row_that_could_mean_two_images_is_refused(row: str) -> None:
    with pytest.raises(PackError, match=r"could mean 2 images, a/1\.jpg and b/1\.jpg"):
        label_by(listing("a/1.jpg", "b/1.jpg"), {row: "x"}, CSV)


def test_two_rows_for_one_image_are_refused() -> None:
    with pytest.raises(PackError, match=r"labels\.csv: 2 of its rows .* first is that of 'a/1"):
        label_by(listing("1.jpg"), {"a/1.jpg": "x", "b/1.jpg": "y"}, CSV)


def test_rows_that_mean_nothing_are_counted_and_the_first_is_named() -> None:
    labels = {"1.jpg": "x", "2.jpg": "x", "3.jpg": "x"}
    with pytest.raises(PackError, match=r"labels\.csv: 2 of its rows .* first is that of '2\.jpg'"):
        label_by(listing("1.jpg"), labels, CSV)


def test_an_image_that_is_not_in_the_csv_is_a_reject() -> None:
    result = label_by(listing("1.jpg", "a/2.jpg", rejects="b"), {"1.jpg": "x"}, CSV)
    assert labels_of(result) == [("1.jpg", 0)]
    assert [(one.name, one.reason) for one in result.rejects] == [
        ("a/2.jpg", "not in labels.csv"),
        ("b", "?"),
    ]


def test_a_row_for_a_reject_is_no_mistake() -> None:
    result = label_by(listing("1.jpg", rejects="a/2.jpg"), {"1.jpg": "x", "2.jpg": "y"}, CSV)
    assert labels_of(result) == [("1.jpg", 0)]
    assert result.classes == ("x", "y")


def test_numbers_are_the_labels_themselves() -> None:
    result = label_by(listing("a", "b", "c"), {"a": "10", "b": "2", "c": "010"}, CSV)
    assert result.classes == tuple(map(str, range(11)))
    assert labels_of(result) == [("a", 10), ("b", 2), ("c", 10)]


def test_a_name_among_numbers_makes_all_of_them_names() -> None:
    result = label_by(listing("a", "b", "c"), {"a": "10", "b": "2", "c": "x"}, CSV)
    assert result.classes == ("10", "2", "x")
    assert labels_of(result) == [("a", 0), ("b", 1), ("c", 2)]


@pytest.mark.parametrize("number", ["-1", "1048576", "20230101"])
def test_a_number_that_is_no_label_is_refused(number: str) -> None:
    with pytest.raises(PackError, match=f"gives the class {number}; numbers are taken as labels"):
        label_by(listing("a", "b"), {"a": "1", "b": number}, CSV)


def test_classes_are_numbered_as_the_file_does() -> None:
    source = listing(
        "a/1", "c/1", "stray", classes=("a", "c"), labels=(0, 1, NO_CLASS), rejects="r"
    )
    result = number_by(source, ("c", "b", "a"), FILE)
    assert result.classes == ("c", "b", "a")
    assert labels_of(result) == [("a/1", 2), ("c/1", 0), ("stray", NO_CLASS)]
    assert result.rejects == source.rejects


def test_a_class_that_the_file_lacks_is_named() -> None:
    source = listing("a/1", "c/1", classes=("a", "c"), labels=(0, 1))
    with pytest.raises(PackError, match=r"class 'c' of the source is not in some/classes\.txt"):
        number_by(source, ("a", "b"), FILE)


def test_a_class_without_images_may_be_missing_in_the_file() -> None:
    source = listing("a/1", classes=("a", "c"), labels=(0,))
    assert number_by(source, ("b", "a"), FILE).classes == ("b", "a")


def test_class_numbers_mean_lines_of_the_file() -> None:
    source = listing("1", "2", classes=("0", "1", "2"), labels=(2, 0))
    result = number_by(source, ("ant", "bee", "cat"), FILE)
    assert result.classes == ("ant", "bee", "cat")
    assert labels_of(result) == [("1", 2), ("2", 0)]


def test_a_class_number_past_the_file_is_refused_with_both_numbers() -> None:
    source = listing("1", classes=("0", "1", "2"), labels=(2,))
    with pytest.raises(PackError, match="names 2 classes, the source has a class 2"):
        number_by(source, ("ant", "bee"), FILE)


def test_folders_called_by_numbers_are_found_by_name_first() -> None:
    source = listing("7/1", "9/1", classes=("7", "9"), labels=(0, 1))
    assert labels_of(number_by(source, ("9", "8", "7"), FILE)) == [("7/1", 2), ("9/1", 0)]
