"""The operations of one configuration in their order, checked as a whole."""

from enum import Enum

from dtsflow.configurable import configurable
from dtsflow.errors import PlanError
from dtsflow.po.erasing import MAY_FOLLOW, RandomErasing
from dtsflow.po.normalize import Normalize
from dtsflow.po.operation import Operation
from dtsflow.po.program import Program
from dtsflow.spec import ImageSpec
from dtsflow.tensor.dtype import DType

__all__ = ["Chain", "Program"]


@configurable
class Chain:
    """What makes a batch row of a decoded image; UINT8 where nothing normalises."""

    operations: tuple[Operation, ...] = ()

    @property
    def normalize(self) -> Normalize | None:
        """The operation that normalises, if there is one."""
        found = [one for one in self.operations if isinstance(one, Normalize)]
        return found[-1] if found else None

    def specs(self, first: ImageSpec, *, where: str = "po.operations") -> list[ImageSpec]:
        """Thread `first` through: what enters each operation, and what leaves the last.

        The list has one spec more than there are operations. `where` is the chain's
        path in the configuration, for messages.

        Raises:
            PlanError: An operation refuses its input, comes after Normalize or
                RandomErasing, or the images that leave the chain differ in size.
        """
        specs = [first]
        for position, operation in enumerate(self.operations):
            at = f"{where}[{position}] ({type(operation).__name__})"
            self._check_place(position, specs[-1], at)
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
        return specs

    def _check_place(self, position: int, spec: ImageSpec, at: str) -> None:
        """Refuse what cannot come after the operations before it."""
        operation = self.operations[position]
        if isinstance(operation, RandomErasing):
            return
        before = self.operations[:position]
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

    def program(self, first: ImageSpec, *, where: str = "po.operations") -> Program:
        """Make what one worker runs; it is not to be shared.

        Raises:
            PlanError: As `specs`.
        """
        return Program(self.operations, self.specs(first, where=where))

    def describe(self) -> list[str]:
        """One line an operation, for the plan."""
        return [_line(operation) for operation in self.operations]


def _line(operation: Operation) -> str:
    declared = getattr(operation, "__dataclass_fields__", ())
    values = {name: getattr(operation, name) for name in declared}
    shown = [f"{name}={_text(value)}" for name, value in values.items() if value is not None]
    return f"{type(operation).__name__}({', '.join(shown)})"


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(_text(part) for part in value)})"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value.value if isinstance(value, Enum) else value)
