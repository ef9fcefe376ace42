"""The labels of a manifest's rows: class numbers, or names of classes."""

import re
from collections.abc import Mapping, Sequence

from dtsflow.plugin import VolumeError
from dtsflow_image_manifest.table import Table

_NUMBER = re.compile(r"-?[0-9]{1,18}")
_MOST_CLASSES = 1 << 20  # a larger number is some identifier, not a label


def labels_of(
    table: Table, column: str, names: Sequence[str] | None
) -> tuple[list[int], tuple[str, ...]]:
    """The label of each row, and the names of all classes.

    With `names` a cell is one of them, or its number from 0. Without, where all cells
    are whole numbers, those are the labels and the classes are called by them; else the
    classes are the sorted cells.

    Raises:
        VolumeError: A row has no label, or one that is no class.
    """
    texts = [_text(table, row, column, cell) for row, cell in enumerate(table.columns[column])]
    if names is not None:
        numbers = {name: number for number, name in enumerate(names)}
        labels = [_known(table, row, text, numbers) for row, text in enumerate(texts)]
        return labels, tuple(names)
    if all(map(_NUMBER.fullmatch, texts)):
        labels = [_number(table, row, int(text)) for row, text in enumerate(texts)]
        return labels, tuple(map(str, range(max(labels) + 1)))
    classes = sorted(set(texts))
    numbers = {name: number for number, name in enumerate(classes)}
    return [numbers[text] for text in texts], tuple(classes)


def _text(table: Table, row: int, column: str, cell: object) -> str:
    if isinstance(cell, bool) or not isinstance(cell, str | int):
        raise VolumeError(
            f"{table.where(row)}: {column} is {cell!r}, and must be a whole number or the name of "
            "a class."
        )
    text = str(cell).strip()
    if not text:
        raise VolumeError(
            f"{table.where(row)}: {column} is empty, so the image has no label. Give it one, or "
            "remove the row."
        )
    return text


def _known(table: Table, row: int, text: str, numbers: Mapping[str, int]) -> int:
    if text in numbers:
        return numbers[text]
    if _NUMBER.fullmatch(text) and 0 <= int(text) < len(numbers):
        return int(text)
    raise VolumeError(
        f"{table.where(row)}: {text!r} is none of the {len(numbers)} classes, nor a number below "
        f"{len(numbers)}. Correct it, or add the class to the list."
    )


def _number(table: Table, row: int, number: int) -> int:
    if not 0 <= number < _MOST_CLASSES:
        raise VolumeError(
            f"{table.where(row)}: {number} is no label: they are 0 to {_MOST_CLASSES - 1}. Give "
            "names of classes, or other numbers."
        )
    return number
