"""The chains of one configuration, which make the fields of a batch, epoch by epoch.

A chain is a list of operations, checked as a whole; it makes one field. It may have two
parts: up to an image that can be kept, and what is done to it afterwards.

A chain version covers epochs in which all operations of a phase are the same. A plan
shows each operation in one line.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from types import ModuleType
from typing import Annotated, Any, Final, Self

from pydantic import BeforeValidator, model_validator

from dtsflow.config.configurable import configurable
from dtsflow.errors import PlanError
from dtsflow.po.erasing import MAY_FOLLOW, RandomErasing
from dtsflow.po.fingerprint import fingerprint_fact
from dtsflow.po.mixup import CutMix, Mixup
from dtsflow.po.normalize import Normalize
from dtsflow.po.operation import Operation
from dtsflow.po.program import Program
from dtsflow.po.schedule import Scheduled
from dtsflow.seed.address import check_field
from dtsflow.spec import IMAGES, ImageSpec
from dtsflow.tensor.dtype import DType


@dataclass(frozen=True, slots=True)
class Branch:
    """A chain as it is in some epoch.

    Attributes:
        operations: One after another.
        specs: The image as decoded, then as each operation leaves it.
        first: The place of the first operation in the chain, of which this may be the
            end.
    """

    operations: tuple[Operation, ...]
    specs: tuple[ImageSpec, ...]
    first: int = 0

    @classmethod
    def checked(cls, operations: Sequence[Operation], first: ImageSpec, *, where: str) -> "Branch":
        """Thread `first` through; `where` is the chain's path in the configuration.

        Raises:
            PlanError: An operation refuses its input, comes after Normalize or
                RandomErasing, or the images that leave the chain differ in size.
        """
        specs = [first]
        for position, operation in enumerate(operations):
            at = f"{where}[{position}] ({type(operation).__name__})"
            _check_place(operation, operations[:position], specs[-1], at)
            try:
                specs.append(operation.out_spec(specs[-1]))
            except PlanError as error:
                raise PlanError(f"{at}: {error}") from error
        last = specs[-1]
        if last.height is None or last.width is None:
            raise PlanError(
                f"{where}: the images that leave the chain are {last}, of different sizes, "
                "and a batch needs one size. Add RandomResizedCrop, CenterCrop, or Resize "
                "with fit: exact or fit: square."
            )
        return cls(tuple(operations), tuple(specs))

    @property
    def out_spec(self) -> ImageSpec:
        """Return what leaves the chain, all of one size."""
        return self.specs[-1]

    def program(self, core: ModuleType | None = None) -> Program:
        """Make what one worker runs; it is not to be shared.

        The compiled `core`, if it is given, draws what it can.
        """
        return Program(self.operations, self.specs, core, first=self.first)


def _check_place(
    operation: Operation, before: Sequence[Operation], spec: ImageSpec, at: str
) -> None:
    """Refuse what cannot come after the operations before it."""
    if isinstance(operation, RandomErasing):
        return
    if any(isinstance(one, Normalize) for one in before) or spec.dtype is not DType.UINT8:
        raise PlanError(
            f"{at}: it comes after Normalize, which leaves {spec}. Normalize must be the "
            "last operation but for RandomErasing, and there can be one: move it to the "
            "end."
        )
    erases = any(isinstance(one, RandomErasing) for one in before)
    may_follow = isinstance(operation, Normalize) or (
        getattr(operation, "step", None) in MAY_FOLLOW
    )
    if erases and not may_follow:
        raise PlanError(
            f"{at}: it comes after RandomErasing, and may move or scale what that erases, "
            "a box of the finished row. Move RandomErasing behind it."
        )


_SHOWN: Final = 4  # changes of an operation that are listed one by one


def describe(chain: Iterable[object]) -> list[str]:
    """Return one line an operation: as it is in epoch 0, and what it becomes later."""
    return [_line(operation) for operation in chain]


def _line(operation: object) -> str:
    if isinstance(operation, Scheduled):
        return f"{_line(operation.at(0))}{_changes(operation)}"
    values = _values(operation)
    shown = [f"{name}={_text(value)}" for name, value in values.items() if value is not None]
    return f"{type(operation).__name__}({', '.join(shown)})"


def _changes(scheduled: Scheduled) -> str:
    stages = scheduled.stages
    if len(stages) > 1 + _SHOWN:
        last = _values(stages[-1][1])
        changed = ", ".join(f"{name}={_text(last[name])}" for name in _changed(scheduled))
        return f", {len(stages) - 1} changes to {changed} from epoch {stages[-1][0]} on"
    told = ""
    for (_, one), (epoch, other) in pairwise(stages):
        before = _values(one)
        new = {name: of_it for name, of_it in _values(other).items() if of_it != before[name]}
        shown = ", ".join(f"{name}={_text(value)}" for name, value in new.items())
        told += f", from epoch {epoch} {shown}"
    return told


def _changed(scheduled: Scheduled) -> list[str]:
    """Return the attributes that are not the same in all epochs."""
    first = _values(scheduled.at(0))
    stages = [_values(one) for _, one in scheduled.stages]
    return [name for name, value in first.items() if any(one[name] != value for one in stages)]


def _values(operation: object) -> Mapping[str, Any]:
    declared = getattr(operation, "__dataclass_fields__", ())
    return {name: getattr(operation, name) for name in declared}


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(_text(part) for part in value)})"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value.value if isinstance(value, Enum) else value)


__all__ = ["Chain", "Program"]

BatchOperation = Mixup | CutMix


def _or_none(value: Any) -> Any:
    return {} if value is None else value


@configurable
class Chain:
    """The operations that make batch rows of decoded images; UINT8 if none normalises.

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
        """Return the operation of the main chain that normalises, if there is one."""
        found = [one for one in self.operations if isinstance(one, Normalize)]
        return found[-1] if found else None

    @property
    def changes(self) -> tuple[int, ...]:
        """Return the epochs from which an operation is another one than before.

        The first is 0.
        """
        steps = [*self.operations, *self.batch]
        steps += [step for chain in self.views.values() for step in chain]
        scheduled = [step for step in steps if isinstance(step, Scheduled)]
        return tuple(sorted({0, *(epoch for one in scheduled for epoch, _ in one.stages)}))

    def branches(self, first: ImageSpec, epoch: int = 0, *, where: str = "po") -> dict[str, Branch]:
        """Return the chains of an epoch, by the field that each makes.

        `images` is the first.

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
        """Return what mixes the rows of a batch in an epoch."""
        return _at(self.batch, epoch)

    def specs(self, first: ImageSpec, *, where: str = "po.operations") -> list[ImageSpec]:
        """Return the input and the output of each main operation in epoch 0.

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
        """Return one line an operation of the main chain, for the plan."""
        return describe(self.operations)

    def facts(self) -> dict[str, Any]:
        """Return what the pixels depend on.

        Parts that are not used are left out.
        """
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


@dataclass(frozen=True, slots=True)
class CutChain:
    """A chain that is cut before what erases, normalises or casts.

    The head makes an UINT8 image, the tail makes of it what the whole chain would.

    Attributes:
        head: The operations before the cut.
        tail: Those behind it.
    """

    head: Branch
    tail: Branch

    @classmethod
    def of(cls, branch: Branch) -> "CutChain":
        """Cut a checked chain.

        Raises:
            PlanError: The images at the cut differ in size, so no room fits them all.
        """
        place = next(
            (
                position
                for position, operation in enumerate(branch.operations)
                if isinstance(operation, Normalize | RandomErasing)
                or branch.specs[position + 1].dtype is not DType.UINT8
            ),
            len(branch.operations),
        )
        spec = branch.specs[place]
        if spec.height is None or spec.width is None:
            raise PlanError(
                f"the images that {type(branch.operations[place]).__name__} gets are {spec}, of "
                "different sizes, and only those of one size can be kept for later epochs. Put "
                "an operation that makes one size, as Resize with fit: exact, before it."
            )
        return cls(
            head=Branch(branch.operations[:place], branch.specs[: place + 1]),
            tail=Branch(branch.operations[place:], branch.specs[place:], branch.first + place),
        )

    @property
    def kept(self) -> ImageSpec:
        """Return the image at the cut."""
        return self.head.out_spec


@dataclass(frozen=True, slots=True)
class ChainVersion:
    """The epochs from `first` on, until the next chain version begins.

    Attributes:
        first: Its first epoch.
        branches: The chains, by the field that each makes; `images` is the first.
        batch: What mixes the rows of a batch.
    """

    first: int
    branches: Mapping[str, Branch]
    batch: tuple[BatchOperation, ...]

    @property
    def pixels(self) -> ImageSpec:
        """Return what a row of `images` is."""
        return self.branches[IMAGES].out_spec
