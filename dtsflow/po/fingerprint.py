"""The names of operations and parsers in fingerprints, wherever their code lies.

A state holds a digest of each of them, and a run goes on only where the digests are the
same. So these names never change, whatever file a class moves to.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# Where the first operations lay when states first named them.
_FIRST_PLACES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "CenterCrop": "dtsflow.po.crop",
        "ColorJitter": "dtsflow.po.jitter",
        "CutMix": "dtsflow.po.mixup",
        "DoNothing": "dtsflow.po.identity",
        "FastRandomResizedCrop": "dtsflow.po.fast_crop",
        "GaussianBlur": "dtsflow.po.blur",
        "GaussianNoise": "dtsflow.po.noise",
        "Mixup": "dtsflow.po.mixup",
        "Normalize": "dtsflow.po.normalize",
        "Pad": "dtsflow.po.pad",
        "RandAugment": "dtsflow.po.augment",
        "RandomAffine": "dtsflow.po.affine",
        "RandomAutocontrast": "dtsflow.po.autocontrast",
        "RandomCrop": "dtsflow.po.crop",
        "RandomErasing": "dtsflow.po.erasing",
        "RandomGrayscale": "dtsflow.po.grayscale",
        "RandomHorizontalFlip": "dtsflow.po.flip",
        "RandomResizedCrop": "dtsflow.po.crop",
        "RandomRotation": "dtsflow.po.affine",
        "RandomScale": "dtsflow.po.scale",
        "RandomVerticalFlip": "dtsflow.po.flip",
        "Resize": "dtsflow.po.resize",
        "TrivialAugmentWide": "dtsflow.po.augment",
    }
)


def fingerprint_fact(configured: object) -> str:
    """Write down a configured operation or parser: where its class is, and its values.

    Of a class of dtsflow it says where it first was, or, of one that came later, the
    package that configurations name it by, such as `dtsflow.po`. Of a plugin's class it
    says the module.
    """
    return f"{_place(type(configured))}.{configured!r}"


def _place(of: type[object]) -> str:
    package, *inner = of.__module__.split(".")
    if package != "dtsflow":
        return of.__module__
    return _FIRST_PLACES.get(of.__name__, ".".join([package, *inner[:1]]))
