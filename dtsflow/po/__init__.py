"""Preprocess operations on uint8 images, and the chain that runs them."""

from dtsflow.po.affine import RandomAffine, RandomRotation
from dtsflow.po.augment import RandAugment, TrivialAugmentWide
from dtsflow.po.blur import GaussianBlur, GaussianNoise
from dtsflow.po.chain import Chain
from dtsflow.po.color import ColorJitter, RandomAutocontrast, RandomGrayscale
from dtsflow.po.crop import CenterCrop, FastRandomResizedCrop, Pad, RandomCrop, RandomResizedCrop
from dtsflow.po.erasing import RandomErasing
from dtsflow.po.flip import DoNothing, RandomHorizontalFlip, RandomVerticalFlip
from dtsflow.po.mixup import CutMix, Mixup
from dtsflow.po.normalize import Normalize
from dtsflow.po.records import RecordChain
from dtsflow.po.resize import RandomScale, Resize
from dtsflow.po.schedule import Schedule

__all__ = [
    "CenterCrop",
    "Chain",
    "ColorJitter",
    "CutMix",
    "DoNothing",
    "FastRandomResizedCrop",
    "GaussianBlur",
    "GaussianNoise",
    "Mixup",
    "Normalize",
    "Pad",
    "RandAugment",
    "RandomAffine",
    "RandomAutocontrast",
    "RandomCrop",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomScale",
    "RandomVerticalFlip",
    "RecordChain",
    "Resize",
    "Schedule",
    "TrivialAugmentWide",
]
