"""Operations on records: named fields in, named fields out.

Those of one configuration are checked as a whole, with the fields that a batch can
have. One worker runs a chain of them on scratch that it keeps.

An operation on images draws and works on one image at a time; this one has a whole
chunk of samples, whatever their fields are.
"""

import dataclasses
import math
from collections.abc import Collection, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dtsflow.config.configurable import configurable
from dtsflow.decode.parser import Arrays
from dtsflow.errors import PlanError
from dtsflow.po.fingerprint import fingerprint_fact
from dtsflow.seed.draws import Draws, operation_draws
from dtsflow.spec import Field

__all__ = ["Arrays", "Draws", "Field", "RecordOperation"]


@runtime_checkable
class RecordOperation(Protocol):
    """One step on records. Stateless: any worker may run it on any chunk."""

    @property
    def words(self) -> int:
        """Return how many draws one sample needs."""

    def out_fields(self, fields: tuple[Field, ...]) -> tuple[Field, ...]:
        """Say what comes out where `fields` go in.

        Raises:
            PlanError: The operation cannot work on them.
        """

    def apply(self, records: Arrays, out: Arrays, draws: Draws) -> None:
        """Fill all of `out` from `records`; keep no view of either.

        They have the same number of rows, and share no bytes. A row depends on its own
        sample's row and draws alone, never on its neighbours.
        """


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


Fields = tuple[Field, ...]


@configurable
class RecordChain:
    """The operations that make a batch's fields of those that a parser leaves."""

    operations: tuple[RecordOperation, ...] = ()

    def fields(self, first: Fields, *, where: str = "po.operations") -> list[Fields]:
        """Thread `first` through: what enters each operation, and what leaves the last.

        Raises:
            PlanError: An operation refuses its input, or its output is not a batch.
        """
        found = [first]
        for position, operation in enumerate(self.operations):
            at = f"{where}[{position}] ({type(operation).__name__})"
            try:
                found.append(check_fields(operation.out_fields(found[-1])))
            except PlanError as error:
                raise PlanError(f"{at}: {error}") from error
        return found

    def facts(self) -> dict[str, Any]:
        """Return what the fields depend on."""
        return {"po": [fingerprint_fact(one) for one in self.operations]}


class RecordProgram:
    """Runs a checked chain on chunks of records, on scratch that it keeps.

    It serves one worker. `fields` are those of `RecordChain.fields`.
    """

    def __init__(
        self, operations: Sequence[RecordOperation], fields: Sequence[tuple[Field, ...]]
    ) -> None:
        self._operations = tuple(operations)
        self._fields = tuple(fields)
        self._words = tuple(operation.words for operation in operations)
        self._scratch: list[dict[str, npt.NDArray[np.generic]]] = [{} for _ in fields]

    def entry(self, rows: int, out: Arrays) -> Arrays:
        """Return where a parser is to write: `out` itself if no operation follows."""
        return self._memory(0, rows, out)

    def run(
        self,
        records: Arrays,
        out: Arrays,
        *,
        seed: int,
        ids: npt.NDArray[np.int64],
        epoch: int,
        phase: int,
    ) -> None:
        """Run the chain on `records`, which is what `entry` gave, and fill `out`.

        `ids` address the draws.

        Raises:
            PlanError: An id or the epoch has no room in a draw's address.
        """
        chunk = operation_draws(
            seed=seed, ids=ids, epoch=epoch, phase=phase, view=0, words=self._words
        )
        for place, (operation, draws) in enumerate(zip(self._operations, chunk, strict=True), 1):
            target = self._memory(place, len(ids), out)
            operation.apply(records, target, draws)
            records = target

    def _memory(self, place: int, rows: int, out: Arrays) -> Arrays:
        if place == len(self._operations):
            return out
        scratch = self._scratch[place]
        for field in self._fields[place]:
            if field.name not in scratch or len(scratch[field.name]) < rows:
                scratch[field.name] = field.empty(rows)
        return {name: array[:rows] for name, array in scratch.items()}
