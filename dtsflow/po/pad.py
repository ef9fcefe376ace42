"""Adding a margin around an image."""

import numpy as np

from dtsflow.configurable import configurable
from dtsflow.native.drawing import Drawing, DrawKind
from dtsflow.native.steps import StepKind
from dtsflow.po.border import Border, Padding, border_numbers, cut, frame_step, frames, margins
from dtsflow.po.fill import Fill, check_fill
from dtsflow.po.operation import Draws, Image, Params, Pixels, Row, Sizes
from dtsflow.po.window import windows
from dtsflow.spec import ImageSpec


@configurable
class Pad:
    """Add margins, as torchvision's: (left, top, right, bottom), or fewer numbers.

    `padding_mode` says what they show: `fill` in `constant`, else the image's own
    pixels. Upstream's bands that read themselves, in its reflect and symmetric, are
    mended.
    """

    padding: Padding
    fill: Fill = 0
    padding_mode: Border = "constant"

    @property
    def step(self) -> StepKind:
        """In the core: cut, with the border around."""
        return frame_step(self.padding_mode, self.fill)

    @property
    def drawing(self) -> Drawing:
        """In the core: the same."""
        left, top, right, bottom = margins(self.padding)
        border = border_numbers(self.padding_mode, self.fill)
        return Drawing(DrawKind.PAD, (top, left, top + bottom, left + right, *border))

    @property
    def words(self) -> int:
        """None: nothing is random."""
        return 0

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Add the margins to what is known of the size.

        Raises:
            PlanError: `fill` is for another number of channels.
        """
        check_fill(self.fill, spec.channels)
        left, top, right, bottom = margins(self.padding)
        height = None if spec.height is None else spec.height + top + bottom
        width = None if spec.width is None else spec.width + left + right
        return ImageSpec(height, width, spec.channels, spec.dtype)

    def draw(self, draws: Draws, sizes: Sizes) -> Params:  # noqa: ARG002  # nothing is random
        """Give the windows, each larger than its image."""
        left, top, _, _ = margins(self.padding)
        height, width = self._padded(sizes).T
        around = windows(np.full_like(height, -top), np.full_like(width, -left), height, width)
        return frames(around, self.padding_mode, self.fill)

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # by size alone
        """Add the margins."""
        return self._padded(sizes)

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Copy the image, and fill the margins."""
        cut(image, out, params)

    def _padded(self, sizes: Sizes) -> Sizes:
        left, top, right, bottom = margins(self.padding)
        padded: Sizes = sizes + np.array([top + bottom, left + right])
        return padded
