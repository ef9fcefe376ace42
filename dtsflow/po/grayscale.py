"""Taking the colours away."""

import numpy as np
import numpy.typing as npt

from dtsflow.configurable import configurable
from dtsflow.native.drawing import Drawing, DrawKind
from dtsflow.native.steps import StepKind
from dtsflow.po.chance import Probability, chances
from dtsflow.po.channels import require_rgb
from dtsflow.po.operation import Draws, Image, Params, Pixels, Row, Sizes
from dtsflow.spec import ImageSpec


def luma(image: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
    """The luma of RGB, height x width, 0 to 255: ITU-R 601-2 as Pillow's mode L has it.

    (19595 R + 38470 G + 7471 B + 2^15) div 2^16.
    """
    red, green, blue = (image[..., channel].astype(np.int32) for channel in range(3))
    total: npt.NDArray[np.int32] = 19595 * red + 38470 * green + 7471 * blue + 0x8000
    return total >> 16


@configurable
class RandomGrayscale:
    """Make all three channels the luma, Pillow's L, with probability `p`."""

    p: Probability = 0.1

    @property
    def step(self) -> StepKind:
        """In the core: gray."""
        return StepKind.GRAYSCALE

    @property
    def drawing(self) -> Drawing:
        """In the core: the same."""
        return Drawing(DrawKind.CHANCE, (self.p,))

    @property
    def words(self) -> int:
        """One: it is gray where the draw is below `p`."""
        return 1

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Change nothing.

        Raises:
            PlanError: The images have no colours.
        """
        require_rgb(spec, "it")
        return spec

    def draw(self, draws: Draws, sizes: Sizes) -> Params:  # noqa: ARG002  # all alike
        """Choose the samples that lose their colours."""
        return chances(draws, 0, self.p)

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # unchanged
        """Change nothing."""
        return sizes

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Fill `out` with the luma, or with the image as it is."""
        out[...] = luma(image)[..., None] if params["happens"] else image
