"""Pixels to numbers of mean 0 and deviation 1: the last step, and the batch's dtype."""

from functools import lru_cache
from typing import Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import model_validator

from dtsflow.config.configurable import configurable
from dtsflow.errors import PlanError
from dtsflow.native.core import AS_STORED, Finish
from dtsflow.po.operation import NOTHING, Draws, Image, Params, Pixels, Row, Sizes
from dtsflow.spec import ImageSpec
from dtsflow.tensor.dtype import DType, from_bfloat16, to_bfloat16

Statistics = tuple[tuple[float, ...], tuple[float, ...]]

# Means and deviations of pixels scaled to 0..1, a value for each channel; one value
# alone in `none` stands for any number of channels.
PRESETS: Final[dict[str, Statistics]] = {
    "none": ((0.0,), (1.0,)),
    "mnist": ((0.1307,), (0.3081,)),
    "cifar": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "mlperf": ((123.68 / 255, 116.78 / 255, 103.94 / 255), (1 / 255, 1 / 255, 1 / 255)),
}
DTYPES: Final = (DType.FP32, DType.FP16, DType.BF16, DType.UINT8)
_LEVELS: Final = 256


@configurable
class Normalize:
    """Scale each channel c of a pixel x to (x / 255 - mean[c]) / std[c].

    Exactly: y = fl32(fl32(x * a) + b) with a = fl32(1 / (255 * std)) and
    b = fl32(-mean / std), both computed in double precision, then rounded to nearest
    even where `dtype` is FP16 or BF16. UINT8 keeps the pixels as they are.

    Either a preset or `mean` and `std`: one value a channel, or one for all of them.
    """

    preset: Literal["none", "mnist", "cifar", "imagenet", "mlperf"] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    dtype: DType = DType.FP32

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        free = self.mean is not None or self.std is not None
        if (self.preset is not None) == free or (self.mean is None) != (self.std is None):
            raise ValueError(
                f"preset is {self.preset}, mean {self.mean} and std {self.std}. Give either a "
                "preset, or mean and std together."
            )
        if self.dtype not in DTYPES:
            valid = ", ".join(dtype.value for dtype in DTYPES)
            raise ValueError(f"dtype is {self.dtype.value}. Choose one of {valid}.")
        if self.dtype is DType.UINT8 and self.preset != "none":
            raise ValueError(
                "dtype UINT8 keeps the pixels as they are, so there is no mean and std to "
                "apply. Give preset: none, or another dtype."
            )
        self._check_values()
        return self

    @property
    def words(self) -> int:
        """None: nothing is random."""
        return 0

    @property
    def statistics(self) -> Statistics:
        """Return the means and the deviations, one a channel or one for all."""
        if self.preset is not None:
            return PRESETS[self.preset]
        assert self.mean is not None
        assert self.std is not None
        return self.mean, self.std

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Change the dtype.

        Raises:
            PlanError: There are values for another number of channels than `spec` has,
                or results beyond the range of the dtype.
        """
        mean, std = self.statistics
        # A preset is of one kind of image, so MNIST's one value doesn't fit all of RGB.
        for_all = len(mean) == 1 and self.preset in (None, "none")
        if not for_all and len(mean) != spec.channels:
            source = f"preset {self.preset}" if self.preset else "mean and std"
            raise PlanError(
                f"{source} is for {len(mean)} channel(s) and the images have "
                f"{spec.channels}. Choose values for {spec.channels} channel(s)."
            )
        if self.dtype is not DType.UINT8:
            results = self._unpacked(_table(self.statistics, self.dtype, spec.channels))
            if not np.isfinite(results).all():
                raise PlanError(
                    f"mean {mean} and std {std} give values beyond the range of "
                    f"{self.dtype.value}. Choose a larger std, or FP32."
                )
        return ImageSpec(spec.height, spec.width, spec.channels, self.dtype)

    def draw(self, draws: Draws, sizes: Sizes) -> Params:  # noqa: ARG002  # nothing is random
        """Choose nothing."""
        return np.empty(len(sizes), NOTHING)

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # unchanged
        """Change nothing."""
        return sizes

    def apply(self, image: Image, out: Pixels, params: Row) -> None:  # noqa: ARG002  # it has none
        """Fill `out`, of this dtype, with the normalised pixels."""
        if self.dtype is DType.UINT8:
            out[...] = image
            return
        # A pixel has 256 values, so each result is computed once, and looked up.
        for channel, results in enumerate(_table(self.statistics, self.dtype, image.shape[2])):
            out[..., channel] = results[image[..., channel]]

    def restore(self, pixels: Pixels) -> Image:
        """Make viewable pixels of normalised ones, as exactly as their dtype allows."""
        if self.dtype is DType.UINT8:
            return np.array(pixels, np.uint8)
        mean, std = np.array(self.statistics)
        shades = (self._unpacked(pixels) * std + mean) * 255.0
        pixels = np.clip(np.rint(shades), 0, 255)
        return pixels.astype(np.uint8)

    def finish(self, channels: int) -> Finish:
        """Return what the core needs to write normalised pixels of so many channels."""
        if self.dtype is DType.UINT8:
            return AS_STORED
        mean, std = np.array(self.statistics)
        scale = np.broadcast_to((1.0 / (255.0 * std)).astype(np.float32), channels)
        offset = np.broadcast_to((-mean / std).astype(np.float32), channels)
        table = _table(self.statistics, self.dtype, channels)
        return Finish(self.dtype, np.ascontiguousarray(scale), np.ascontiguousarray(offset), table)

    def _unpacked(self, stored: Pixels) -> npt.NDArray[np.float64]:
        if self.dtype is DType.BF16:
            stored = from_bfloat16(stored)
        return np.asarray(stored, np.float64)

    def _check_values(self) -> None:
        mean, std = self.statistics
        if len(mean) != len(std) or not mean:
            raise ValueError(
                f"mean has {len(mean)} value(s) and std has {len(std)}. Give one each a "
                "channel, or one for all."
            )
        if not (np.isfinite([mean, std]).all() and min(std) > 0):
            raise ValueError(
                f"mean is {mean} and std is {std}. Give finite numbers, and std above zero."
            )


@lru_cache(maxsize=64)  # a pure function of few different arguments
def _table(statistics: Statistics, dtype: DType, channels: int) -> npt.NDArray[Any]:
    """Return the result for each value that a pixel may have.

    Shape (channels, 256).
    """
    mean, std = np.array(statistics)[:, :, None]
    with np.errstate(over="ignore", invalid="ignore"):  # out_spec refuses what overflows
        a = (1.0 / (255.0 * std)).astype(np.float32)
        b = (-mean / std).astype(np.float32)
        scaled = np.arange(_LEVELS, dtype=np.float32) * a
        results = scaled + b  # a step of its own: no fused multiply-add
        if dtype is DType.BF16:
            packed: npt.NDArray[Any] = to_bfloat16(results)
        else:
            packed = results.astype(dtype.numpy)
    table = np.broadcast_to(packed, (channels, _LEVELS)).copy()
    table.flags.writeable = False  # it is shared
    return table
