"""Another form that the tensor of a slot takes."""

from dataclasses import dataclass

from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape


@dataclass(frozen=True, slots=True)
class Variant:
    """A shape and type that a slot holds at some other time of a run.

    A phase with its own resolution, or a last batch that is shorter: the slot is as big
    as its biggest form, so that no address changes with the form in use.
    """

    shape: Shape
    dtype: DType

    def __str__(self) -> str:
        return f"{self.dtype.value}{self.shape}"
