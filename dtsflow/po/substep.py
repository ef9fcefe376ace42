"""One of several kinds of steps, chosen for each sample: what an augmentation does.

A row holds the number of a step of the core, and the row that an operation with that
step would have drawn. So the reference and the core each run what they have for it.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dtsflow.native.steps import OWN_NUMBERS, StepKind
from dtsflow.po.autocontrast import stretch
from dtsflow.po.chance import CHANCE
from dtsflow.po.jitter import JITTER, jitter
from dtsflow.po.levels import equalize, posterize, solarize
from dtsflow.po.operation import Image, Params, Pixels, Row
from dtsflow.po.sharpness import sharpen
from dtsflow.po.warp import MAP, warp

SUBSTEP: Final = np.dtype([("kind", "<i4"), ("own", "<i4", (OWN_NUMBERS - 1,))])
"""The step's number, or NONE, and the bytes of its own row."""

BITS: Final = np.dtype([("bits", "<i4")])
THRESHOLD: Final = np.dtype([("threshold", "<f4")])
FACTOR: Final = np.dtype([("factor", "<f4")])

NONE: Final = -1
"""The kind of a row that changes nothing."""


def fill_in(rows: Params, where: npt.NDArray[np.bool_], own: Params) -> None:
    """Give the rows at `where` the rows that their steps take, in order."""
    numbers = own.view(np.int32).reshape(len(own), -1)
    rows["own"][where, : numbers.shape[1]] = numbers


def apply(image: Image, out: Pixels, row: Row) -> None:
    """Do what `row` says."""
    if row["kind"] == NONE:
        out[...] = image
        return
    dtype, change = _CHANGES[StepKind(row["kind"])]
    own = np.frombuffer(row["own"].tobytes(), dtype, 1)[0]
    change(image, out, own)


_CHANGES: Final[dict[StepKind, tuple[np.dtype[Any], Callable[[Image, Pixels, Row], None]]]] = {
    StepKind.WARP: (MAP, warp),
    StepKind.JITTER: (JITTER, jitter),
    StepKind.AUTOCONTRAST: (CHANCE, lambda image, out, _: stretch(image, out)),
    StepKind.POSTERIZE: (BITS, lambda image, out, row: posterize(image, out, int(row["bits"]))),
    StepKind.SOLARIZE: (
        THRESHOLD,
        lambda image, out, row: solarize(image, out, float(row["threshold"])),
    ),
    StepKind.EQUALIZE: (CHANCE, lambda image, out, _: equalize(image, out)),
    StepKind.SHARPEN: (FACTOR, lambda image, out, row: sharpen(image, out, row["factor"])),
}
