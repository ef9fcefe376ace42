"""A column of numbers, or of lists of numbers, as a field of the batches."""

import re

import numpy as np

from dtsflow.plugin import Column, DType, Field, VolumeError
from dtsflow_image_manifest.table import Table

KIND = r"(INT32|INT64|FP32|FP64)(\[[1-9][0-9]{0,5}\])?"
"""How a configuration writes a field: a type, and a length if it is a list."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")


def field_of(name: str, kind: str) -> Field:
    """The field that a configuration declares as `kind`, which is one of KIND."""
    dtype, _, length = kind.removesuffix("]").partition("[")
    return Field(name, (int(length),) if length else (), DType(dtype))


def column_of(table: Table, field: Field) -> Column:
    """The column of a field's name.

    Raises:
        VolumeError: A cell is no number of the field's type, or a list of another
            length; or it is a list and the manifest CSV.
    """
    if field.shape and table.is_csv:
        raise VolumeError(
            f"{table.path}: {field.name} is declared as a list, which a cell of a CSV cannot be. "
            "Write JSON Lines, or a column for each number."
        )
    numbers = [
        _row(f"{table.where(row)}: {field.name}", cell, field)
        for row, cell in enumerate(table.columns[field.name])
    ]
    return Column(field, np.array(numbers, field.dtype.numpy))


def _row(where: str, cell: object, field: Field) -> int | float | list[int | float]:
    if not field.shape:
        return _number(where, cell, field.dtype)
    (length,) = field.shape
    if not isinstance(cell, list) or len(cell) != length:
        had = f"a list of {len(cell)}" if isinstance(cell, list) else repr(cell)[:40]
        raise VolumeError(
            f"{where} is {had}, and must be a list of {length} numbers. Correct the row, or "
            "declare another length."
        )
    return [_number(f"{where}[{place}]", one, field.dtype) for place, one in enumerate(cell)]


def _number(where: str, cell: object, dtype: DType) -> int | float:
    is_whole = dtype.numpy.kind == "i"
    value = _parsed(cell.strip(), is_whole=is_whole) if isinstance(cell, str) else cell
    allowed = (int,) if is_whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed):
        what = "whole number" if is_whole else "number"
        raise VolumeError(f"{where} is {str(cell)[:40]!r}, and must be a {what}. Correct the row.")
    low, high = _limits(dtype)
    if not low <= value <= high:
        raise VolumeError(
            f"{where} is {str(cell)[:40]}, and {dtype.value} holds {low} to {high}. Declare a "
            "larger type, or correct the row."
        )
    return value


def _parsed(text: str, *, is_whole: bool) -> int | float | None:
    if is_whole:
        return int(text) if _INTEGER.fullmatch(text) else None
    return float(text) if _DECIMAL.fullmatch(text) else None


def _limits(dtype: DType) -> tuple[int, int] | tuple[float, float]:
    if dtype.numpy.kind == "i":
        integers = np.iinfo(dtype.numpy)
        return int(integers.min), int(integers.max)
    floats = np.finfo(dtype.numpy)
    return float(floats.min), float(floats.max)
