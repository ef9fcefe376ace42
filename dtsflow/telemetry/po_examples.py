"""An example of every operation that dtsflow.po exports, and photos to try it on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from PIL import Image

from dtsflow import po
from dtsflow.po.grayscale import luma
from dtsflow.volume.scene import Look, make_plates, paint

Photos = npt.NDArray[np.uint8]
"""Images of one size: (n, height, width, channels)."""

_GOLDEN: Final = 0.618034  # multiples of it, modulo 1, keep any number of hues apart
_FIRST: Final = 5  # the first photo is the one that is shown, and this one has colours
_SMALLEST: Final = 96  # pixels of a side that is painted
_SURE: Final = {"p": 1.0}  # what it costs when it happens


@dataclass(frozen=True, slots=True)
class Example:
    """One operation, of images or of the rows of a batch, and how it is written."""

    label: str
    operation: Any


def names() -> list[str]:
    """The operations that dtsflow.po exports."""
    exported = ((name, getattr(po, name)) for name in po.__all__)
    return sorted(name for name, one in exported if hasattr(one, "draw") and hasattr(one, "apply"))


def example(name: str, height: int, width: int) -> Example:
    """An operation of this name, for images of this size.

    One of chance happens always. An operation that needs no arguments has its defaults.

    Raises:
        TypeError: It needs arguments, and there is no example of any.
    """
    arguments = _arguments(height, width).get(name, {})
    shown = ", ".join(f"{key}={_text(value)}" for key, value in arguments.items())
    return Example(f"{name}({shown})", getattr(po, name)(**arguments))


def photos(count: int, height: int, width: int, channels: int) -> Photos:
    """Different photo-like images, always the same ones; one channel is their luma."""
    plates = make_plates(np.random.default_rng(0))
    zoom = -(-_SMALLEST // min(height, width))  # texture does not shrink with a picture
    made = np.empty((count, height, width, channels), np.uint8)
    for place, number in enumerate(range(_FIRST, _FIRST + count)):
        look = Look(hue=number * _GOLDEN % 1, roughness=(number * 7 % 10) / 9)
        painted = paint(width * zoom, height * zoom, look, plates, np.random.default_rng(number))
        scaled = Image.fromarray(painted).resize((width, height), Image.Resampling.BOX)
        image = np.asarray(scaled)
        made[place] = luma(image.astype(np.int32))[..., None] if channels == 1 else image
    return made


def _arguments(height: int, width: int) -> Mapping[str, Mapping[str, Any]]:
    inner = (max(1, height * 3 // 4), max(1, width * 3 // 4))
    margin = max(1, min(height, width) // 8)
    return {
        "CenterCrop": {"size": inner},
        "ColorJitter": {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1},
        "FastRandomResizedCrop": {"size": (height, width)},
        "GaussianBlur": {"kernel_size": 5},
        "Normalize": {"preset": "none", "dtype": "FP16"},
        "Pad": {"padding": margin, "padding_mode": "reflect"},
        "RandomAffine": {"degrees": 20, "translate": (0.1, 0.1), "interpolation": "bilinear"},
        "RandomAutocontrast": _SURE,
        "RandomCrop": {"size": (height, width), "padding": margin},
        "RandomErasing": _SURE,
        "RandomGrayscale": _SURE,
        "RandomHorizontalFlip": _SURE,
        "RandomResizedCrop": {"size": (height, width)},
        "RandomRotation": {"degrees": 30, "interpolation": "bilinear"},
        "RandomScale": {"min_ratio": 0.8, "max_ratio": 1.2},
        "RandomVerticalFlip": _SURE,
        "Resize": {"size": inner, "fit": "exact"},
    }


def _text(value: object) -> str:
    """An argument, short; a pair of equal numbers is the one."""
    if isinstance(value, tuple):
        parts = [_text(part) for part in dict.fromkeys(value)]
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
    return f"{value:g}" if isinstance(value, float) else str(value)
