"""Mixing the samples of a batch in pairs, pixels and labels alike.

A pair is of one lane: its q rows of a batch are always on one rank, so what comes out
depends on neither the ranks nor the workers. For each lane and step there is one share
and one shift: the valid rows of the lane stand in a ring, and each is mixed with the
one `shift` places on. Rows that are not valid stay as they are, and so does one alone.

The share is a draw of the distribution Beta(alpha, alpha), after Bailey (1994) and
Devroye (1996): with u and v uniform, p = u^(1 / alpha) and c = cos(2 pi v), it is

    (1 + c * sqrt((1 - p) / (p + (1 - p) * c^2))) / 2,

made of operations that give the same bits on every machine.
"""

from types import ModuleType
from typing import Annotated, Any, Final

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dtsflow.config.configurable import configurable
from dtsflow.errors import PlanError
from dtsflow.native.core import CASTS
from dtsflow.po.operation import Draws, Params, Row
from dtsflow.seed.exact import EXP_LIMIT, exp, logs, sin_cos
from dtsflow.tensor.dtype import DType, from_bfloat16, to_bfloat16

MIX: Final = np.dtype(
    [("share", "<f4"), ("shift", "<u4"), *((name, "<i4") for name in ("y", "x", "h", "w"))]
)
"""Of a lane: the part of a row that stays its own, the word that the shift is made of,
and the window that another's pixels fill, empty where whole images are blended."""

Rows = npt.NDArray[Any]
"""Rows of one lane as the batch holds them: (q, height, width, channels)."""
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Alpha = Annotated[float, Field(ge=0.01, le=100)]
_SQUARINGS: Final = 4


@configurable
class Mixup:
    """Blend each image with another of its lane: share * own + (1 - share) * other.

    As torchvision's MixUp, but for one share a lane, and a drawn shift. In float32:
    both products are rounded, then their sum, then that to the dtype of the rows.
    """

    alpha: Alpha = 1.0

    @property
    def words(self) -> int:
        """Three for a lane: two for the share, and the shift."""
        return 3

    def draw(self, draws: Draws, height: int, width: int) -> Params:  # noqa: ARG002  # as CutMix
        """Choose a chunk of lanes' shares and shifts; one MIX row a lane."""
        made = np.zeros(len(draws), MIX)
        made["share"] = symmetric_beta(self.alpha, draws)
        made["shift"] = draws.words[:, 2]
        return made

    def apply(self, rows: Rows, params: Row, partners: Ints, *, dtype: DType) -> Rows:
        """Make the mixed rows, of the same shape and dtype; `rows` stay as they are."""
        own = np.float32(params["share"])
        other = np.float32(1) - own
        values = _numbers(rows, dtype)
        mixed = values * own + values[partners] * other
        is_alone = partners == np.arange(len(rows))
        return np.where(is_alone[:, None, None, None], rows, _stored(mixed, dtype))

    def mix(
        self, core: ModuleType, rows: Rows, params: Row, partners: Ints, *, dtype: DType
    ) -> None:
        """Make of `rows` itself what `apply` makes, bit for bit, without the GIL.

        `rows` has no gaps, and `partners` each row once, as `pair` gives them.
        """
        core.mix_rows(_bytes(rows), CASTS[dtype], partners, float(params["share"]))


@configurable
class CutMix:
    """Paste a window of another image of its lane into each; as torchvision's CutMix.

    The window has sqrt(1 - share) of both sides, before the image's edges cut it off,
    around a point that may be any pixel. `share` is then what is left of the area.
    """

    alpha: Alpha = 1.0

    @property
    def words(self) -> int:
        """Five for a lane: two for the share, the shift, and the window's centre."""
        return 5

    def draw(self, draws: Draws, height: int, width: int) -> Params:
        """Choose a chunk of lanes' windows and shifts; one MIX row a lane."""
        made = np.zeros(len(draws), MIX)
        made["shift"] = draws.words[:, 2]
        half = 0.5 * np.sqrt(1.0 - symmetric_beta(self.alpha, draws))
        made["y"], made["h"] = _window(draws.integers(3, height), half, height)
        made["x"], made["w"] = _window(draws.integers(4, width), half, width)
        inside = made["h"].astype(np.float64) * made["w"]
        made["share"] = 1.0 - inside / float(height * width)
        return made

    def apply(self, rows: Rows, params: Row, partners: Ints, *, dtype: DType) -> Rows:  # noqa: ARG002  # as Mixup
        """Make the mixed rows, of the same shape and dtype; `rows` stay as they are."""
        y, x, h, w = (int(params[name]) for name in ("y", "x", "h", "w"))
        mixed = rows.copy()
        mixed[:, y : y + h, x : x + w] = rows[partners, y : y + h, x : x + w]
        return mixed

    def mix(
        self,
        core: ModuleType,
        rows: Rows,
        params: Row,
        partners: Ints,
        *,
        dtype: DType,  # noqa: ARG002  # as Mixup
    ) -> None:
        """Make of `rows` itself what `apply` makes; see `Mixup.mix`."""
        y, x, h, w = (int(params[name]) for name in ("y", "x", "h", "w"))
        width, pixel = rows.shape[2], rows.shape[3] * rows.itemsize
        window = ((y * width + x) * pixel, w * pixel, h, width * pixel)
        core.paste_rows(_bytes(rows), partners, window)


def check_rows(rows_of_a_lane: int) -> None:
    """Refuse batches whose lanes have no pairs.

    Raises:
        PlanError: A lane gives a batch a single row.
    """
    if rows_of_a_lane < 2:  # noqa: PLR2004  # a pair
        raise PlanError(
            f"each lane gives a batch {rows_of_a_lane} row(s), and Mixup and CutMix mix the rows "
            "of a lane: two at least. Use a smaller `lanes`, or a larger batch_size."
        )


def pair(valid: npt.NDArray[np.bool_], shift: int) -> Ints:
    """Say which row of its lane each of q rows is mixed with; itself if with none."""
    partners = np.arange(len(valid))
    places = np.flatnonzero(valid)
    if len(places) > 1:
        steps = 1 + (int(shift) * (len(places) - 1) >> 32)
        partners[places] = np.roll(places, -steps)
    return partners


def soft_labels(
    labels: npt.NDArray[np.int32], params: Row, partners: Ints, classes: int
) -> npt.NDArray[np.float32]:
    """Give each class its part of a row: float32 (q, classes), zeros for label -1.

    A row that is mixed with another has `share` of its own class and the rest of the
    other's; one that is not has all of its own.
    """
    return mixed_labels(one_hot(labels, classes), params, partners)


def one_hot(labels: npt.NDArray[np.int32], classes: int) -> npt.NDArray[np.float32]:
    """Give all of a row to its class: float32 (q, classes), zeros for label -1."""
    made = np.zeros((len(labels), classes), np.float32)
    known = np.flatnonzero(labels >= 0)
    made[known, labels[known]] = 1
    return made


def mixed_labels(
    soft: npt.NDArray[np.float32], params: Row, partners: Ints
) -> npt.NDArray[np.float32]:
    """Mix soft labels (q, classes) as the pixels of their rows are mixed."""
    own = np.float32(params["share"])
    part = np.full((len(soft), 1), own, np.float32)
    part[partners == np.arange(len(soft))] = 1
    mixed: npt.NDArray[np.float32] = soft * part + soft[partners] * (np.float32(1) - part)
    return mixed


def mix_labels(
    core: ModuleType, soft: npt.NDArray[np.float32], params: Row, partners: Ints
) -> None:
    """Make of soft labels themselves what `mixed_labels` makes; see `Mixup.mix`."""
    core.mix_rows(_bytes(soft), CASTS[DType.FP32], partners, float(params["share"]))


def symmetric_beta(alpha: float, draws: Draws) -> Floats:
    """Make one number of Beta(alpha, alpha) of the draws 0 and 1 of each lane."""
    power = logs(1.0 - draws.uniform(0)) / alpha
    # Below that limit p is nothing beside 1, but for a cosine of exactly zero.
    scale = float(1 << _SQUARINGS)
    p = exp(np.maximum(power, -EXP_LIMIT * scale) / scale)
    for _ in range(_SQUARINGS):
        p = p * p
    _, cosine = sin_cos(360.0 * draws.uniform(1))
    rest = np.maximum(1.0 - p, 0.0)
    share = 0.5 * (1.0 + cosine * np.sqrt(rest / (p + rest * (cosine * cosine))))
    return np.clip(share, 0.0, 1.0)  # rounding can go beyond


def _bytes(rows: Rows) -> npt.NDArray[np.uint8]:
    assert rows.flags.c_contiguous  # else the core would be given a copy
    return rows.view(np.uint8).reshape(-1)


def _window(centre: Ints, half: Floats, side: int) -> tuple[Ints, Ints]:
    """Return the first place and the length on an axis."""
    reach = (half * side).astype(np.int64)
    first = np.maximum(centre - reach, 0)
    return first, np.minimum(centre + reach, side) - first


def _numbers(rows: Rows, dtype: DType) -> npt.NDArray[np.float32]:
    return from_bfloat16(rows) if dtype is DType.BF16 else np.asarray(rows, np.float32)


def _stored(values: npt.NDArray[np.float32], dtype: DType) -> Rows:
    if dtype is DType.BF16:
        return to_bfloat16(values)
    return (np.rint(values) if dtype is DType.UINT8 else values).astype(dtype.numpy)
