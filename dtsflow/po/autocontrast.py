"""Stretching each channel over all values."""

import numpy as np

from dtsflow.configurable import configurable
from dtsflow.native.drawing import Drawing, DrawKind
from dtsflow.native.steps import StepKind
from dtsflow.po.chance import Probability, chances
from dtsflow.po.channels import require_gray_or_rgb
from dtsflow.po.operation import Draws, Image, Params, Pixels, Row, Sizes
from dtsflow.spec import ImageSpec


@configurable
class RandomAutocontrast:
    """Stretch each channel, with probability `p`, to have 0 and 255 as its extremes.

    As Pillow's `ImageOps.autocontrast`, which torchvision calls: x becomes
    x * scale + offset, cut to a whole number, with scale = 255 / (max - min) and
    offset = -min * scale, each rounded to double. A channel of one value stays.
    (Upstream rounds the result instead.)
    """

    p: Probability = 0.5

    @property
    def step(self) -> StepKind:
        """In the core: stretch."""
        return StepKind.AUTOCONTRAST

    @property
    def drawing(self) -> Drawing:
        """In the core: the same."""
        return Drawing(DrawKind.CHANCE, (self.p,))

    @property
    def words(self) -> int:
        """One: it happens where the draw is below `p`."""
        return 1

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Change nothing.

        Raises:
            PlanError: The images are neither gray nor RGB.
        """
        require_gray_or_rgb(spec)
        return spec

    def draw(self, draws: Draws, sizes: Sizes) -> Params:  # noqa: ARG002  # all alike
        """Choose the samples to stretch."""
        return chances(draws, 0, self.p)

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # unchanged
        """Change nothing."""
        return sizes

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Stretch the image, or copy it."""
        if params["happens"]:
            stretch(image, out)
        else:
            out[...] = image


def stretch(image: Image, out: Pixels) -> None:
    """Stretch each channel of more than one value from 0 to 255."""
    out[...] = image
    for channel in range(image.shape[2]):
        low, high = int(image[..., channel].min()), int(image[..., channel].max())
        if low == high:
            continue
        scale = 255.0 / (high - low)
        stretched = np.arange(256) * scale + -low * scale
        table = np.clip(stretched, 0, 255).astype(np.uint8)
        out[..., channel] = table[image[..., channel]]
