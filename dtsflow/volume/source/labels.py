"""Classes and labels that files give, in place of the source's folders.

`match` finds which image each row of a labels CSV means.
"""

import csv
import io
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path

from dtsflow.errors import PackError
from dtsflow.volume.format.file import read_extension
from dtsflow.volume.format.header import SUFFIX
from dtsflow.volume.source.base import (
    IMAGE_SUFFIXES,
    NO_CLASS,
    Listing,
    Reject,
    numbered_lines,
    read_text,
)


def match(names: Iterable[str], rows: Collection[str], path: Path) -> dict[str, str]:
    """Map the names of images to the row that means each, where one does.

    A row means the image with the same whole name; else with the same base name; else
    with the same base name without an image's suffix. The last two hold only if no
    other row and no other image has the same name. `path` is the file of the rows.

    Raises:
        PackError: A row means no image, or could mean several.
    """
    images = dict.fromkeys(names)
    found = {name: name for name in images if name in rows}
    free = {row for row in rows if row not in found}
    for reduced in (_base, _stem):
        if not free:
            break
        by_image = _unique(images, reduced)
        for key, row in _unique(rows, reduced).items():
            image = by_image.get(key)
            if row in free and image is not None and image not in found:
                found[image] = row
                free.remove(row)
    if free:
        raise _unmatched(free, rows, images, path)
    return found


def _unique(names: Iterable[str], reduced: Callable[[str], str]) -> dict[str, str | None]:
    """Map each reduced name to the one it was; None where several were."""
    found: dict[str, str | None] = {}
    for name in names:
        key = reduced(name)
        found[key] = None if key in found else name
    return found


def _unmatched(
    free: Collection[str], rows: Iterable[str], images: Iterable[str], path: Path
) -> PackError:
    first = next(row for row in rows if row in free)
    alike = [name for name in images if _stem(name) == _stem(first)]
    if len(alike) > 1:
        return PackError(
            f"{path}: the row of {first!r} could mean {len(alike)} images, {alike[0]} and "
            f"{alike[1]} among them. Write the name with its folder, and each image once."
        )
    return PackError(
        f"{path}: {len(free)} of its rows mean no image of the source, the first is that of "
        f"{first!r}. Correct the names, add the files, or remove the rows."
    )


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def _stem(name: str) -> str:
    base = _base(name)
    stem, dot, suffix = base.rpartition(".")
    return stem if f"{dot}{suffix}".lower() in IMAGE_SUFFIXES else base


_HEADINGS = {"name", "file", "filename", "path", "image", "id", "imageid"}
_MOST_DIGITS = 18
_MOST_CLASSES = 1 << 20  # a larger number is some identifier, not a label


def read_classes(path: Path) -> tuple[str, ...]:
    """Read class names, one a line, the first is class 0; or a volume's.

    Raises:
        PackError: The file cannot be read or is empty; a line is blank or comes twice;
            the volume has no class names.
        VolumeError: The volume is damaged.
    """
    if path.suffix == SUFFIX:
        return _classes_of(path)
    first_line: dict[str, int] = {}
    for number, name in numbered_lines(path):
        if name in first_line:
            raise PackError(
                f"{path} line {number} is {name!r}, as line {first_line[name]} is. A class has "
                "one number: remove one of the lines."
            )
        first_line[name] = number
    if not first_line:
        raise PackError(f"{path} is empty. Write one class name a line, class 0 first.")
    return tuple(first_line)


def _classes_of(volume: Path) -> tuple[str, ...]:
    extension = read_extension(volume)
    if extension is None:
        raise PackError(
            f"{volume} has no class names: it was packed with compat upstream, or by upstream. "
            "Write them to a text file, one a line, class 0 first."
        )
    return extension.about.class_names


def read_labels(path: Path) -> dict[str, str]:
    """Read the class of each file from the first two columns of a CSV.

    A first row whose first cell is a heading (name, file, filename, path, image, id or
    ImageId) and empty rows are skipped; the rest of a row is not looked at.

    Raises:
        PackError: The file cannot be read or names no file; a row lacks a cell, or
            gives a file another class than a row before.
    """
    labels: dict[str, str] = {}
    rows = csv.reader(io.StringIO(read_text(path), newline=""), skipinitialspace=True, strict=True)
    try:
        for number, row in enumerate(filter(None, rows)):
            if number == 0 and row[0].strip().lower() in _HEADINGS:
                continue
            _add_row(labels, row, f"{path} line {rows.line_num}")
    except csv.Error as error:
        raise PackError(f"{path} line {rows.line_num} is no CSV: {error}.") from error
    if not labels:
        raise PackError(f"{path} names no file. Write one row a file: its name, its class.")
    return labels


def label_by(listing: Listing, labels: dict[str, str], csv_path: Path) -> Listing:
    """Give every image the class that `labels`, read from `csv_path`, has for it.

    A row means the image with its whole name, else the one with its base name, else the
    one with its base name without the suffix of an image; never several. Images that no
    row means are rejects. The classes are the sorted values; where all are whole
    numbers, these are the labels, and the classes are called by them from 0 on.

    Raises:
        PackError: A row means no image, or several; a number is not a label.
    """
    everything = [image.name for image in listing.images]
    everything += [reject.name for reject in listing.rejects]  # a row for one is not a mistake
    rows = match(everything, labels, csv_path)
    classes, label_of = number_values(labels.values(), csv_path)
    images = []
    rejects = list(listing.rejects)
    for image in listing.images:
        row = rows.get(image.name)
        if row is None:
            rejects.append(Reject(image.name, f"not in {csv_path.name}"))
        else:
            images.append(replace(image, label=label_of[labels[row]]))
    return Listing(classes, tuple(images), tuple(sorted(rejects, key=lambda one: one.name)))


def number_by(listing: Listing, classes: tuple[str, ...], path: Path) -> Listing:
    """Give classes the numbers that `classes`, read from the file at `path`, has.

    All of them are classes of the result, also those that no image has. Where the
    classes that images have are numbers (labels from a CSV, or volumes without class
    names) and not all names in the file, each number means the line with it, from 0.

    Raises:
        PackError: A class that images have is not in the file.
    """
    used = sorted({image.label for image in listing.images} - {NO_CLASS})
    numbers = {name: number for number, name in enumerate(classes)}
    names = {label: listing.classes[label] for label in used}
    by_name = all(name in numbers for name in names.values())
    if not by_name and all(_is_number(name) and str(int(name)) == name for name in names.values()):
        new = {label: _line(int(name), classes, path) for label, name in names.items()}
    else:
        new = {label: _number(name, numbers, path) for label, name in names.items()}
    new[NO_CLASS] = NO_CLASS
    images = tuple(
        image if new[image.label] == image.label else replace(image, label=new[image.label])
        for image in listing.images
    )
    return Listing(classes, images, listing.rejects)


def _add_row(labels: dict[str, str], row: list[str], where: str) -> None:
    name, label = (*row, "", "")[:2]
    name, label = name.strip(), label.strip()
    if not name or not label:
        raise PackError(f"{where} is {','.join(row)!r}; it needs a file name, a comma, a class.")
    if labels.setdefault(name, label) != label:
        raise PackError(
            f"{where} gives {name} the class {label!r}, a row before says {labels[name]!r}. "
            "An image has one class: remove one of the rows."
        )


def number_values(given: Iterable[str], path: Path) -> tuple[tuple[str, ...], dict[str, int]]:
    """Return the classes that values from `path` mean, and the label of each value.

    They are the sorted values; where all are whole numbers, these are the labels, and
    the classes are called by them from 0 on.

    Raises:
        PackError: A number is not a label.
    """
    values = sorted(set(given))
    if not all(_is_number(value.removeprefix("-")) for value in values):
        return tuple(values), {value: rank for rank, value in enumerate(values)}
    numbers = {value: int(value) for value in values}
    for value, number in numbers.items():
        if not 0 <= number < _MOST_CLASSES:
            raise PackError(
                f"{path} gives the class {value}; numbers are taken as labels, from 0 to "
                f"{_MOST_CLASSES - 1}. Give names instead, or remove the rows without a class."
            )
    if not numbers:
        return (), {}
    return tuple(map(str, range(max(numbers.values()) + 1))), numbers


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def _line(number: int, classes: tuple[str, ...], path: Path) -> int:
    if number >= len(classes):
        raise PackError(
            f"{path} names {len(classes)} classes, the source has a class {number}. Add the "
            "missing lines: class 0 comes first."
        )
    return number


def _number(name: str, numbers: dict[str, int], path: Path) -> int:
    if name not in numbers:
        raise PackError(
            f"the class {name!r} of the source is not in {path}. Add it there as a new last "
            "line, or remove the class from the source."
        )
    return numbers[name]
