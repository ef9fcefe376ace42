"""What a batch takes in a zone."""

from dataclasses import dataclass

from dtsflow.spec import ImageSpec
from dtsflow.tensor.shape import Shape


@dataclass(frozen=True, slots=True)
class Form:
    """What one phase puts into a zone.

    Attributes:
        rows: Rows of each batch on this rank.
        pixels: One row's pixels, all of one size.
        stored_channels: Channels that a pixel takes in the zone.
    """

    rows: int
    pixels: ImageSpec
    stored_channels: int

    @property
    def image(self) -> Shape:
        """The shape of one row's pixels, without padding."""
        pixels = self.pixels
        assert pixels.height is not None  # Chain.specs refuses a chain that ends otherwise
        assert pixels.width is not None
        return Shape(1, pixels.height, pixels.width, pixels.channels)
