"""What batches are for."""

from dtsflow.consumer.count import Count
from dtsflow.consumer.digest import Digest
from dtsflow.consumer.sheet import Sheet

__all__ = ["Count", "Digest", "Sheet"]
