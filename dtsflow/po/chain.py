"""The chains of one configuration: what makes the fields of a batch, epoch by epoch."""

from collections.abc import Iterable
from dataclasses import field
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, model_validator

from dtsflow.configurable import configurable
from dtsflow.errors import PlanError
from dtsflow.po.branch import Branch
from dtsflow.po.describe import describe
from dtsflow.po.fingerprint import fingerprint_fact
from dtsflow.po.mixup import CutMix, Mixup
from dtsflow.po.normalize import Normalize
from dtsflow.po.operation import Operation
from dtsflow.po.program import Program
from dtsflow.po.scheduled import Scheduled
from dtsflow.seed.address import check_field
from dtsflow.spec import IMAGES, ImageSpec

__all__ = ["Chain", "Program"]

BatchOperation = Mixup | CutMix


def _or_none(value: Any) -> Any:
    return {} if value is None else value


@configurable
class Chain:
    """What makes batch rows of decoded images; UINT8 where nothing normalises.

    Attributes:
        operations: The main chain, which makes the field `images`.
        views: Further chains, by the name of the field that each makes. They start with
            the same decoded image, and draw independently.
        batch: What mixes the rows of `images` in pairs, one after another, once a batch
            is written; the batch then has the field `soft_labels`.
    """

    operations: tuple[Operation | Scheduled, ...] = ()
    views: Annotated[dict[str, tuple[Operation | Scheduled, ...]], BeforeValidator(_or_none)] = (
        field(default_factory=dict)
    )
    batch: tuple[BatchOperation | Scheduled, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for chain in (self.operations, *self.views.values()):
            _check_stages(chain, Operation)
        _check_stages(self.batch, BatchOperation)
        for name in self.views:
            if not name.isidentifier() or name.startswith("_"):
                raise ValueError(f"views: {name!r} cannot name a field. Use letters, digits and _.")
        return self

    @property
    def normalize(self) -> Normalize | None:
        """The operation of the main chain that normalises, if there is one."""
        found = [one for one in self.operations if isinstance(one, Normalize)]
        return found[-1] if found else None

    @property
    def changes(self) -> tuple[int, ...]:
        """The epochs from which an operation is another one than before; 0 first."""
        steps = [*self.operations, *self.batch]
        steps += [step for chain in self.views.values() for step in chain]
        scheduled = [step for step in steps if isinstance(step, Scheduled)]
        return tuple(sorted({0, *(epoch for one in scheduled for epoch, _ in one.stages)}))

    def branches(self, first: ImageSpec, epoch: int = 0, *, where: str = "po") -> dict[str, Branch]:
        """The chains of an epoch, by the field that each makes; `images` is the first.

        A chain's place here is its view's number in random addresses.

        Raises:
            PlanError: As `Branch.checked`; or there are more than an address can tell
                apart.
        """
        check_field("view", len(self.views))
        check_field("batch position", len(self.batch))
        chains = {"operations": self.operations}
        chains |= {f"views.{name}": chain for name, chain in self.views.items()}
        found: dict[str, Branch] = {}
        for name, (key, chain) in zip((IMAGES, *self.views), chains.items(), strict=True):
            check_field("position", len(chain))
            try:
                found[name] = Branch.checked(_at(chain, epoch), first, where=f"{where}.{key}")
            except PlanError as error:
                raise PlanError(f"{error} (From epoch {epoch} on.)" if epoch else error) from error
        return found

    def batch_operations(self, epoch: int) -> tuple[BatchOperation, ...]:
        """What mixes the rows of a batch in an epoch."""
        return _at(self.batch, epoch)

    def specs(self, first: ImageSpec, *, where: str = "po.operations") -> list[ImageSpec]:
        """What enters each operation of the main chain in epoch 0, and what leaves it.

        `where` is the chain's path in the configuration, for messages.

        Raises:
            PlanError: As `Branch.checked`.
        """
        return list(self._main(first, where).specs)

    def program(self, first: ImageSpec, *, where: str = "po.operations") -> Program:
        """Make what one worker runs as the main chain in epoch 0.

        Raises:
            PlanError: As `Branch.checked`.
        """
        return self._main(first, where).program()

    def _main(self, first: ImageSpec, where: str) -> Branch:
        return Branch.checked(_at(self.operations, 0), first, where=where)

    def describe(self) -> list[str]:
        """One line an operation of the main chain, for the plan."""
        return describe(self.operations)

    def facts(self) -> dict[str, Any]:
        """What the pixels depend on; a part that is not used is left out."""
        # A list, for their order decides what they draw.
        views = [[name, _facts(chain)] for name, chain in self.views.items()]
        return {
            "po": _facts(self.operations),
            **({"views": views} if views else {}),
            **({"batch": _facts(self.batch)} if self.batch else {}),
        }


def _at(chain: Iterable[Any], epoch: int) -> tuple[Any, ...]:
    return tuple(one.at(epoch) if isinstance(one, Scheduled) else one for one in chain)


def _check_stages(chain: Iterable[object], kind: Any) -> None:
    scheduled = [one.at(0) for one in chain if isinstance(one, Scheduled)]
    wrong = [type(one).__name__ for one in scheduled if not isinstance(one, kind)]
    if wrong:
        raise ValueError(f"{wrong[0]} cannot stand here.")


def _facts(chain: Iterable[object]) -> list[Any]:
    return [_fact(one) for one in chain]


def _fact(operation: object) -> Any:
    if not isinstance(operation, Scheduled):
        return fingerprint_fact(operation)
    stages = [[epoch, _fact(one)] for epoch, one in operation.stages]
    return stages[0][1] if len(stages) == 1 else stages
