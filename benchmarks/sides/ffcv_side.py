"""FFCV: its own file format, its own decoder, NHWC half batches.

It decodes whole images with the fast DCT and resizes by area; neither can be changed.
Half numbers leave it as their 16 bits in an int16 tensor. Normalising comes before
ToTensor: the other way round it hangs.
"""

from importlib.metadata import version

import numpy as np
from ffcv.fields.decoders import (
    IntDecoder,
    RandomResizedCropRGBImageDecoder,
    SimpleRGBImageDecoder,
)
from ffcv.loader import Loader, OrderOption
from ffcv.pipeline.operation import Operation
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, RandomTranslate, ToTensor
from timing import CIFAR_MEAN, CIFAR_PAD, CIFAR_STD, MEAN, RATIO, SCALE, SIZE, STD, job, timed

Floats = tuple[float, float, float]


def operations(decoding: list[Operation], mean: Floats, std: Floats) -> list[Operation]:
    """`decoding`, then flip, normalise, half."""
    scaled = (255 * np.array(mean), 255 * np.array(std))
    return [*decoding, RandomHorizontalFlip(), NormalizeImage(*scaled, np.float16), ToTensor()]


def main() -> None:
    """Time whole passes over the Loader; the warm-up pass includes its compilation."""
    asked = job()
    if asked.task == "cifar":
        crop = [RandomTranslate(CIFAR_PAD)] if asked.crop else []
        image = operations([SimpleRGBImageDecoder(), *crop], CIFAR_MEAN, CIFAR_STD)
    else:
        crop = RandomResizedCropRGBImageDecoder((SIZE, SIZE), SCALE, RATIO)
        image = operations([crop], MEAN, STD)
    loader = Loader(
        asked.data,
        batch_size=asked.batch,
        num_workers=asked.workers,
        order=OrderOption.RANDOM,
        os_cache=True,
        drop_last=True,
        pipelines={"image": image, "label": [IntDecoder(), ToTensor()]},
    )

    def one_pass() -> int:
        images = 0
        for batch, labels in loader:
            images += len(batch)
            int(labels[0])
        return images

    timed(one_pass, asked.passes, f"FFCV {version('ffcv')}")


if __name__ == "__main__":
    main()
