"""What one phase puts into a zone."""

from dataclasses import dataclass

from dtsflow.native.steps import Finish
from dtsflow.spec import ImageSpec


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """What one phase puts into a zone.

    Attributes:
        rows: Rows of each batch on this rank.
        pixels: Height, width, channels and dtype.
        stored_channels: Channels that a pixel takes in the zone.
        finish: The last step, if a device is to do it: the workers then leave UINT8
            pixels without padding, and `pixels` and `stored_channels` say what the
            device makes of them.
    """

    rows: int
    pixels: ImageSpec
    stored_channels: int
    finish: Finish | None = None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Rows, height, width and stored channels of a batch."""
        height, width = self.pixels.height, self.pixels.width
        assert height is not None
        assert width is not None
        return self.rows, height, width, self.stored_channels
