"""Preprocess operations on uint8 images, and the chain that runs them."""

from dtsflow.po.autocontrast import RandomAutocontrast
from dtsflow.po.blur import GaussianBlur
from dtsflow.po.chain import Chain
from dtsflow.po.crop import CenterCrop, RandomCrop, RandomResizedCrop
from dtsflow.po.erasing import RandomErasing
from dtsflow.po.flip import RandomHorizontalFlip
from dtsflow.po.grayscale import RandomGrayscale
from dtsflow.po.jitter import ColorJitter
from dtsflow.po.noise import GaussianNoise
from dtsflow.po.normalize import Normalize
from dtsflow.po.resize import Resize

__all__ = [
    "CenterCrop",
    "Chain",
    "ColorJitter",
    "GaussianBlur",
    "GaussianNoise",
    "Normalize",
    "RandomAutocontrast",
    "RandomCrop",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "Resize",
]
