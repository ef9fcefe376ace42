"""Which bytes, in which order, when."""

from dtsflow.reader.resident import Resident

__all__ = ["Resident"]
