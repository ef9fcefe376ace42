"""dtsflow feeds training: DTS volumes to planned NHWC batches, exactly and fast."""

from dtsflow import volume
from dtsflow.about import __version__
from dtsflow.library import open  # noqa: A004  # dtsflow.open reads as it should

__all__ = ["__version__", "open", "volume"]
