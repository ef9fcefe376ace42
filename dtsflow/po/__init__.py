"""Preprocess operations on uint8 images, and the chain that runs them."""

from dtsflow.po.affine import RandomAffine, RandomRotation
from dtsflow.po.augment import RandAugment, TrivialAugmentWide
from dtsflow.po.autocontrast import RandomAutocontrast
from dtsflow.po.blur import GaussianBlur
from dtsflow.po.chain import Chain
from dtsflow.po.crop import CenterCrop, RandomCrop, RandomResizedCrop
from dtsflow.po.erasing import RandomErasing
from dtsflow.po.fast_crop import FastRandomResizedCrop
from dtsflow.po.flip import RandomHorizontalFlip, RandomVerticalFlip
from dtsflow.po.grayscale import RandomGrayscale
from dtsflow.po.identity import DoNothing
from dtsflow.po.jitter import ColorJitter
from dtsflow.po.mixup import CutMix, Mixup
from dtsflow.po.noise import GaussianNoise
from dtsflow.po.normalize import Normalize
from dtsflow.po.pad import Pad
from dtsflow.po.record_chain import RecordChain
from dtsflow.po.resize import Resize
from dtsflow.po.scale import RandomScale
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
