"""What batches are for."""

from dtsflow.consumer.consumer import Count
from dtsflow.consumer.digest import Digest
from dtsflow.consumer.digits import Digits
from dtsflow.consumer.sheet import Sheet
from dtsflow.consumer.softmax import LinearFit, Softmax
from dtsflow.consumer.train import Train

__all__ = ["Count", "Digest", "Digits", "LinearFit", "Sheet", "Softmax", "Train"]
