"""What a data set says of each of its images beside the label."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dtsflow.errors import SetError
from dtsflow.spec import Field


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A further field of every sample, known before any is read.

    A batch has the rows of its samples as `batch.NAME`, zeros in a missing row; no
    operation changes them.

    Attributes:
        field: Name, shape of one row and type.
        values: A row for each sample, by sample_id; read-only, of the field's type.

    Raises:
        SetError: The values have another shape.
    """

    field: Field
    values: npt.NDArray[Any]

    def __post_init__(self) -> None:
        values = np.array(self.values, self.field.dtype.numpy, order="C")
        if values.shape != (len(values), *self.field.shape):
            raise SetError(
                f"the column {self.field.name!r} has values of shape {values.shape}, and its rows "
                f"are {self.field.shape}: the first axis is the samples, then come those of a row."
            )
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    def __len__(self) -> int:
        return len(self.values)

    def taken(self, numbers: npt.NDArray[np.int64]) -> "Column":
        """The rows with these numbers, in their order."""
        return Column(self.field, self.values[numbers])

    def fact(self) -> bytes:
        """All that it is, for a fingerprint."""
        about = (self.field.name, self.field.shape, self.field.dtype.value)
        return repr(about).encode() + self.values.tobytes()
