"""A batch as a consumer gets it: its arrays, and their place in the run."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """One batch of one rank, readable until the next one is asked for.

    The arrays are views of fixed memory; copy what must live longer. BF16 pixels are
    carried as their 16 bits in uint16. With a device arena `valid` and `sample_ids` are
    of the host, and all others are cupy's. Each of `fields` is an attribute, too:
    `batch.soft_labels` is `batch.fields["soft_labels"]`.

    Attributes:
        images: Pixels (B, H, W, C); None where the set is one of records.
        padded: The same pixels with padded channels (B, H, W, padded C).
        labels: int32 (B,); -1 in a missing row.
        valid: bool (B,); False in a missing row.
        sample_ids: int64 (B,); -1 in a missing row.
        phase: Name of the phase.
        epoch: Epoch within the run.
        step: Number of the global batch within the epoch.
        first_row: Where this rank's rows begin in the global batch.
        zone: 0 or 1, the memory it lies in.
        fields: What else the batch has, by name: arrays with a row for each sample, as
            views and soft labels; zeros in a missing row.
    """

    images: Any
    padded: Any
    labels: Any
    valid: npt.NDArray[np.bool_]
    sample_ids: npt.NDArray[np.int64]
    phase: str
    epoch: int
    step: int
    first_row: int
    zone: int
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "fields" or name not in self.fields:
            known = "" if name == "fields" else f" Its further fields: {', '.join(self.fields)}."
            raise AttributeError(f"a batch has no {name!r}.{known}")
        return self.fields[name]

    def __len__(self) -> int:
        return len(self.labels)

    def on_host(self) -> "Batch":
        """Return this batch with arrays of NumPy.

        It is the batch itself, or has copies of a device's arrays.

        The copies are work of the current stream, which must be that of the pass.
        """
        if isinstance(self.labels, np.ndarray):
            return self
        padded = None if self.padded is None else self.padded.get()
        images = None if padded is None else padded[..., : self.images.shape[-1]]
        fields = {name: array.get() for name, array in self.fields.items()}
        labels = self.labels.get()
        return replace(self, images=images, padded=padded, labels=labels, fields=fields)

    def compact(self) -> "Batch":
        """Return a copy of the valid rows alone, in memory of its own."""
        padded = None if self.padded is None else self.padded[self.valid]
        return replace(
            self,
            images=None if padded is None else padded[..., : self.images.shape[-1]],
            padded=padded,
            labels=self.labels[self.valid],
            sample_ids=self.sample_ids[self.valid],
            valid=self.valid[self.valid],
            fields={name: array[self.valid] for name, array in self.fields.items()},
        )
