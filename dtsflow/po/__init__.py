"""Preprocess operations on uint8 images, and the chain that runs them."""

from dtsflow.po.chain import Chain
from dtsflow.po.crop import CenterCrop, RandomCrop, RandomResizedCrop
from dtsflow.po.flip import RandomHorizontalFlip
from dtsflow.po.normalize import Normalize
from dtsflow.po.resize import Resize

__all__ = [
    "CenterCrop",
    "Chain",
    "Normalize",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "Resize",
]
