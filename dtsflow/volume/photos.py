"""A folder of made-up photographs with the sizes and bytes of ImageNet's."""

import io
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from dtsflow.errors import PackError
from dtsflow.volume.appearing import appearing
from dtsflow.volume.scene import Look, Plates, make_plates, paint

# Shares of the sizes that half of ImageNet has; the rest follow a lognormal law.
_COMMON_SIZES = {
    (500, 375): 0.46,
    (375, 500): 0.13,
    (500, 333): 0.13,
    (333, 500): 0.05,
    (500, 334): 0.02,
}
_SMALLEST, _LARGEST = 75, 2500  # pixels a side
_GRAY = 0.02
_GOLDEN = 0.618034  # multiples of it, modulo 1, keep any number of hues apart


def write_photos(
    folder: Path,
    *,
    images: int,
    classes: int,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Make `folder` with one class folder per class and JPEG images in them.

    Image i has class i mod `classes`. The same arguments give the same images, whatever
    the number of processors. The folder appears under its name when it is complete.
    `progress` gets the images done and all.

    Raises:
        PackError: `folder` exists or cannot be written, or a number is out of range.
    """
    if images < 1 or classes < 1 or seed < 0:
        raise PackError(
            f"{images} images of {classes} classes with seed {seed} cannot be made: images "
            "and classes start at 1, the seed at 0."
        )
    rng = np.random.Generator(np.random.PCG64(seed))
    plates = make_plates(rng)
    with appearing(folder) as unfinished:
        for label in range(classes):
            (unfinished / _class_name(label)).mkdir()

        def write(number: int) -> None:
            label = number % classes
            name = f"{_class_name(label)}_{number:06d}.JPEG"
            data = _photo(plates, label, np.random.default_rng((seed, number)))
            (unfinished / _class_name(label) / name).write_bytes(data)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for done, _ in enumerate(pool.map(write, range(images)), 1):
                if progress is not None:
                    progress(done, images)


def _photo(plates: Plates, label: int, rng: np.random.Generator) -> bytes:
    width, height = _draw_size(rng)
    look = Look(hue=label * _GOLDEN % 1, roughness=(label * 7 % 10) / 9)
    image = Image.fromarray(paint(width, height, look, plates, rng))
    if rng.random() < _GRAY:
        image = image.convert("L")
    stored = io.BytesIO()
    quality = int(np.clip(round(rng.normal(94, 2)), 88, 96))
    image.save(stored, "JPEG", quality=quality, subsampling="4:2:0")
    return stored.getvalue()


def _draw_size(rng: np.random.Generator) -> tuple[int, int]:
    left = rng.random()
    for size, share in _COMMON_SIZES.items():
        left -= share
        if left < 0:
            return size
    side = np.exp(rng.normal(np.log(360), 0.6))
    ratio = np.exp(rng.normal(0.1, 0.15))  # the square root of width by height
    width, height = (int(np.clip(s, _SMALLEST, _LARGEST)) for s in (side * ratio, side / ratio))
    return width, height


def _class_name(label: int) -> str:
    return f"class_{label:04d}"
