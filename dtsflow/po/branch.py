"""Operations one after another, checked as a whole: what makes one field of a batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

from dtsflow.errors import PlanError
from dtsflow.po.erasing import MAY_FOLLOW, RandomErasing
from dtsflow.po.normalize import Normalize
from dtsflow.po.operation import Operation
from dtsflow.po.program import Program
from dtsflow.spec import ImageSpec
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
        """What leaves the chain, all of one size."""
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
