"""What a batch takes in a zone."""

from dataclasses import dataclass

from dtsflow.native.steps import Finish
from dtsflow.spec import ImageSpec
from dtsflow.tensor.shape import Shape


@dataclass(frozen=True, slots=True)
class Form:
    """What one phase puts into a zone.

    Attributes:
        rows: Rows of each batch on this rank.
        pixels: One row's pixels, all of one size.
        stored_channels: Channels that a pixel takes in the zone.
        finish: The last step, if a device is to do it. The workers then leave UINT8
            pixels without padding, and the rest says what the device makes of them.
    """

    rows: int
    pixels: ImageSpec
    stored_channels: int
    finish: Finish | None = None

    @property
    def image(self) -> Shape:
        """The shape of one row's pixels, without padding."""
        pixels = self.pixels
        assert pixels.height is not None  # Chain.specs refuses a chain that ends otherwise
        assert pixels.width is not None
        return Shape(1, pixels.height, pixels.width, pixels.channels)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Rows, height, width and stored channels of a batch."""
        return self.rows, self.image.h, self.image.w, self.stored_channels
