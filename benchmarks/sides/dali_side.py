"""DALI on the CPU: region decode, resize, flip, normalise, NHWC half batches.

The VGG recipe adds one `color_twist` before that and `erase` after it.
"""

import math
from typing import Any

from nvidia import dali
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali import math as dali_math
from timing import (
    ERASE,
    ERASE_RATIO,
    ERASE_SCALE,
    HUE,
    JITTER,
    MEAN,
    RATIO,
    SCALE,
    SIZE,
    STD,
    job,
    timed,
)


@pipeline_def
def train(folder: str, antialias: bool, recipe: str):  # noqa: FBT001  # DALI's decorator passes it by name
    """The training pipeline of DALI's own examples, on the CPU."""
    stored, labels = fn.readers.file(file_root=folder, random_shuffle=True, name="files")
    image = fn.decoders.image_random_crop(
        stored,
        device="cpu",
        output_type=types.RGB,
        random_area=list(SCALE),
        random_aspect_ratio=list(RATIO),
        num_attempts=10,
    )
    image = fn.resize(
        image, size=(SIZE, SIZE), interp_type=types.INTERP_LINEAR, antialias=antialias
    )
    if recipe == "vgg":
        image = jittered(image)
    image = fn.crop_mirror_normalize(
        image,
        dtype=types.FLOAT16,
        output_layout="HWC",
        mean=[255 * value for value in MEAN],
        std=[255 * value for value in STD],
        mirror=fn.random.coin_flip(),
    )
    return (erased(image) if recipe == "vgg" else image), labels


def jittered(image: Any) -> Any:
    """Brightness, contrast, saturation and hue, in DALI's one order."""
    low, high = 1 - JITTER, 1 + JITTER
    brightness, contrast, saturation = (fn.random.uniform(range=(low, high)) for _ in range(3))
    hue = fn.random.uniform(range=(-360 * HUE, 360 * HUE))
    return fn.color_twist(
        image, brightness=brightness, contrast=contrast, saturation=saturation, hue=hue
    )


def erased(image: Any) -> Any:
    """A box of zeros in a part of the images, of RandomErasing's areas and ratios."""
    area = fn.random.uniform(range=ERASE_SCALE)
    span = (math.log(ERASE_RATIO[0]), math.log(ERASE_RATIO[1]))
    ratio = dali_math.exp(fn.random.uniform(range=span))
    happens = fn.random.coin_flip(probability=ERASE)
    sides = [dali_math.sqrt(area * ratio), dali_math.sqrt(area / ratio)]
    sides = [dali_math.min(side, 1.0) * happens for side in sides]
    places = [fn.random.uniform(range=(0.0, 1.0)) * (1.0 - side) for side in sides]
    return fn.erase(
        image,
        anchor=fn.stack(*places),
        shape=fn.stack(*sides),
        axis_names="HW",
        normalized=True,
        fill_value=0.0,
    )


def main() -> None:
    """Time as many batches as whole ones fit into each pass."""
    asked = job()
    pipeline = train(
        asked.data,
        antialias=asked.antialias,
        recipe=asked.task,
        batch_size=asked.batch,
        num_threads=asked.workers,
        device_id=None,
    )
    pipeline.build()
    steps = pipeline.epoch_size("files") // asked.batch

    def one_pass() -> int:
        images = 0
        for _ in range(steps):
            batch, labels = pipeline.run()
            images += len(batch)
            int(labels.as_array()[0, 0])
        return images

    timed(one_pass, asked.passes, f"DALI {dali.__version__}")


if __name__ == "__main__":
    main()
