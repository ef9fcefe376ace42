"""Batches and data sets for PyTorch.

`Loader` gives the batches of a run as tensors, in the way of a DataLoader, and
`VolumeDataset` the single samples of a data set.
"""

from dtsflow.errors import MissingPartError

try:
    import torch  # noqa: F401  # so that its absence is told once, here
except ImportError as error:
    raise MissingPartError(
        f"PyTorch cannot be imported ({error}): pip install 'dtsflow[torch]'."
    ) from error

from dtsflow.interop.torch.loader import Loader, TorchBatch
from dtsflow.interop.torch.volume_dataset import VolumeDataset

__all__ = ["Loader", "TorchBatch", "VolumeDataset"]
