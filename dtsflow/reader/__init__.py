"""Which bytes, in which order, when."""

from dtsflow.reader.reader import Reader
from dtsflow.reader.subset import Subset

__all__ = ["Reader", "Subset"]
