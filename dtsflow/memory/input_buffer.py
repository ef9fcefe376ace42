"""What the input zones hold at one time of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dtsflow.memory.variant import Variant
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape


@dataclass(frozen=True, slots=True)
class InputBuffer:
    """One form of a batch: `batch` images of the sides in `image`, whose n is replaced.

    A run has one for each phase or resolution that differs. `fields` are what a batch
    has beside images and labels, by name; `name` is what it calls its images, which of
    records are a field.
    """

    batch: int
    image: Shape
    dtype: DType
    fields: Mapping[str, Variant] = field(default_factory=dict)
    name: str = "images"

    @property
    def labels(self) -> Variant:
        """The labels, one INT32 for each image."""
        return Variant(Shape.from_logical((self.batch,)), DType.INT32)

    @property
    def images(self) -> Variant:
        """The pixels of the whole batch."""
        return Variant(replace(self.image, n=self.batch), self.dtype)
