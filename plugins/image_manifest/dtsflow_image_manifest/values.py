"""A column of numbers, or of lists of numbers, as a field of the batches."""

import re
from dataclasses import dataclass

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
    numbers = _Numbers.of(field.dtype)
    values = np.empty((len(table), *field.shape), field.dtype.numpy)
    for row, cell in enumerate(table.columns[field.name]):
        try:
            values[row] = _listed(cell, field.shape[0], numbers) if field.shape else numbers(cell)
        except _WrongError as problem:
            raise VolumeError(f"{table.where(row)}: {field.name}{problem}") from None
    return Column(field, values)


class _WrongError(Exception):
    """What is wrong with a cell, to be read after its name."""


@dataclass(frozen=True, slots=True)
class _Numbers:
    """What the numbers of a type are: texts of a CSV, or numbers of JSON."""

    dtype: DType
    is_whole: bool
    low: int | float
    high: int | float

    @classmethod
    def of(cls, dtype: DType) -> "_Numbers":
        """Those that an element of the type holds."""
        if dtype.numpy.kind == "i":
            integers = np.iinfo(dtype.numpy)
            return cls(dtype, is_whole=True, low=int(integers.min), high=int(integers.max))
        floats = np.finfo(dtype.numpy)
        return cls(dtype, is_whole=False, low=float(floats.min), high=float(floats.max))

    def __call__(self, cell: object) -> int | float:
        """The number that a cell is."""
        value = self._parsed(cell.strip()) if isinstance(cell, str) else cell
        if type(value) is not int and (self.is_whole or type(value) is not float):
            what = "whole number" if self.is_whole else "number"
            raise _WrongError(f" is {str(cell)[:40]!r}, and must be a {what}. Correct the row.")
        if not self.low <= value <= self.high:
            raise _WrongError(
                f" is {str(cell)[:40]}, and {self.dtype.value} holds {self.low} to {self.high}. "
                "Declare a larger type, or correct the row."
            )
        return value

    def _parsed(self, text: str) -> int | float | None:
        if self.is_whole:
            return int(text) if _INTEGER.fullmatch(text) else None
        return float(text) if _DECIMAL.fullmatch(text) else None


def _listed(cell: object, length: int, numbers: _Numbers) -> list[int | float]:
    if not isinstance(cell, list) or len(cell) != length:
        had = f"a list of {len(cell)}" if isinstance(cell, list) else repr(cell)[:40]
        raise _WrongError(
            f" is {had}, and must be a list of {length} numbers. Correct the row, or declare "
            "another length."
        )
    found = []
    for place, one in enumerate(cell):
        try:
            found.append(numbers(one))
        except _WrongError as problem:
            raise _WrongError(f"[{place}]{problem}") from None
    return found
