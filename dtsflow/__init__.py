"""dtsflow feeds training: DTS volumes to planned NHWC batches, exactly and fast."""

__version__ = "0.1.0"

from dtsflow import volume
from dtsflow.library import open  # noqa: A004  # dtsflow.open reads as it should

__all__ = ["__version__", "open", "volume"]
