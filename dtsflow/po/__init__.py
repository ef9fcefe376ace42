"""Preprocess operations on uint8 images, and the chain that runs them."""

from dtsflow.po.affine import RandomAffine, RandomRotation
from dtsflow.po.chain import Chain
from dtsflow.po.crop import CenterCrop, RandomCrop, RandomResizedCrop
from dtsflow.po.fast_crop import FastRandomResizedCrop
from dtsflow.po.flip import RandomHorizontalFlip, RandomVerticalFlip
from dtsflow.po.identity import DoNothing
from dtsflow.po.mixup import CutMix, Mixup
from dtsflow.po.normalize import Normalize
from dtsflow.po.pad import Pad
from dtsflow.po.resize import Resize
from dtsflow.po.scale import RandomScale

__all__ = [
    "CenterCrop",
    "Chain",
    "CutMix",
    "DoNothing",
    "FastRandomResizedCrop",
    "Mixup",
    "Normalize",
    "Pad",
    "RandomAffine",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomScale",
    "RandomVerticalFlip",
    "Resize",
]
