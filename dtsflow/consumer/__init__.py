"""What batches are for."""

from dtsflow.consumer.count import Count
from dtsflow.consumer.digest import Digest
from dtsflow.consumer.digits import Digits
from dtsflow.consumer.linear_fit import LinearFit
from dtsflow.consumer.sheet import Sheet
from dtsflow.consumer.softmax import Softmax
from dtsflow.consumer.train import Train

__all__ = ["Count", "Digest", "Digits", "LinearFit", "Sheet", "Softmax", "Train"]
