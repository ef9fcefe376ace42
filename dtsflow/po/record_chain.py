"""The operations on records of one configuration in their order, checked as a whole."""

from typing import Any

from dtsflow.configurable import configurable
from dtsflow.errors import PlanError
from dtsflow.po.fingerprint import fingerprint_fact
from dtsflow.po.named_fields import check_fields
from dtsflow.po.record_operation import RecordOperation
from dtsflow.spec import Field

Fields = tuple[Field, ...]


@configurable
class RecordChain:
    """What makes the fields of a batch of those that a parser leaves."""

    operations: tuple[RecordOperation, ...] = ()

    def fields(self, first: Fields, *, where: str = "po.operations") -> list[Fields]:
        """Thread `first` through: what enters each operation, and what leaves the last.

        Raises:
            PlanError: An operation refuses its input, or its output is no batch.
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
        """What the fields depend on."""
        return {"po": [fingerprint_fact(one) for one in self.operations]}
