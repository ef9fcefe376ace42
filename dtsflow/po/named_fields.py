"""Which fields a batch can have."""

import dataclasses
import math
from collections.abc import Collection, Sequence

from dtsflow.errors import PlanError
from dtsflow.spec import Field

MAX_SIDES = 3  # beside the rows: a slot holds four dimensions

# What every batch has anyway.
_ARRAYS = {"images", "padded", "labels", "valid", "sample_ids", "fields"}
_PLACE = {"phase", "epoch", "step", "first_row", "zone"}
_TAKEN = _ARRAYS | _PLACE | {"compact", "on_host"}


def check_fields(fields: Sequence[Field]) -> tuple[Field, ...]:
    """`fields`, if a batch can have them.

    Raises:
        PlanError: There is none, or a name, a side or a type is impossible; says which.
    """
    names = [field.name for field in fields]
    if not fields:
        raise PlanError("it leaves no field, and a batch needs one at least.")
    for field in fields:
        if problem := _problem(field, names):
            raise PlanError(f"field {field.name!r}: {problem}")
    return tuple(dataclasses.replace(field, shape=tuple(field.shape)) for field in fields)


def check_columns(fields: Sequence[Field], others: Collection[str]) -> None:
    """See that a batch of images can have these fields beside the `others` it has.

    Raises:
        PlanError: A name, a side or a type is impossible, or a name is taken; says
            which.
    """
    for field in check_fields(fields) if fields else ():
        if field.name in others:
            raise PlanError(
                f"field {field.name!r}: a view or a batch operation makes a field of that name. "
                "Call the column, or the view, something else."
            )


def _problem(field: Field, names: Sequence[str]) -> str:
    if not field.name.isidentifier() or field.name.startswith("_"):
        return "its name must be a word of letters, digits and _, so that a batch can have it."
    if field.name in _TAKEN:
        return "a batch has something else of that name. Choose another."
    if names.count(field.name) > 1:
        return "there are two of that name."
    if len(field.shape) > MAX_SIDES or math.prod(field.shape) < 1 or min((1, *field.shape)) < 1:
        return f"its shape {field.shape} must be at most {MAX_SIDES} sides of 1 or more."
    return ""
