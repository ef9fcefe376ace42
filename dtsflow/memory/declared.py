"""A tensor that a configuration adds to the plan."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from dtsflow.configurable import configurable
from dtsflow.errors import MemoryPlanError
from dtsflow.memory.region import Region
from dtsflow.memory.variant import Variant
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import RANK, Shape


def _region(value: Any) -> Any:
    """The region of that name, for pydantic to check that it is one."""
    if not isinstance(value, str):
        return value
    try:
        region = Region.named(value)
    except MemoryPlanError as error:
        raise ValueError(str(error)) from error
    if region.name.startswith("I_"):
        raise ValueError(f"{region.name} is filled by the run itself. Choose another region.")
    return region


Sides = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1, max_length=RANK)]


@configurable
class Form:
    """A shape and type that a declared tensor has at some other time.

    Attributes:
        shape: One to four sides, batch first, channels last.
        dtype: The element type.
    """

    shape: Sides
    dtype: DType

    def variant(self) -> Variant:
        """The same with all four sides."""
        return Variant(Shape.from_logical(self.shape), self.dtype)


@configurable
class Declared:
    """A tensor that the plan gets beside those that the run itself needs.

    Attributes:
        name: What tables and messages call it.
        region: Where it lies; not in the input, which the run fills.
        shape: One to four sides, batch first, channels last: (O, I) is [O,1,1,I].
        dtype: An element type that the region holds.
        variants: Other forms that its slot must have room for.
    """

    name: Annotated[str, Field(min_length=1)]
    region: Annotated[Region, BeforeValidator(_region)]
    shape: Sides
    dtype: DType
    variants: tuple[Form, ...] = ()
