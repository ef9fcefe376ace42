"""A random window as upstream's FastRandomResizedCrop chooses it."""

from typing import Annotated

from pydantic import Field

from dtsflow.configurable import configurable
from dtsflow.native.drawing import Drawing, DrawKind
from dtsflow.po.crop import Floats, RandomResizedCrop
from dtsflow.po.window import sides
from dtsflow.seed.exact import exp, log

Fraction = Annotated[float, Field(ge=1e-3, le=1)]


@configurable
class FastRandomResizedCrop(RandomResizedCrop):
    """As RandomResizedCrop, but the area is log-uniform in `scale`: more small windows.

    This is upstream's, where each image is decoded for each epoch.
    """

    scale: tuple[Fraction, Fraction] = (0.08, 1.0)

    @property
    def drawing(self) -> Drawing:
        """In the core: the same."""
        low, high = (log(end) for end in self.scale)
        return Drawing(
            DrawKind.LOG_RESIZED_CROP, (*sides(self.size), low, high - low, *self._ratios())
        )

    def _shares(self, uniform: Floats) -> Floats:
        low, high = (log(end) for end in self.scale)
        return exp(low + uniform * (high - low))
