"""Which bytes, in which order, when."""

from dtsflow.reader.reader import Reader

__all__ = ["Reader"]
