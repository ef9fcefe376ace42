"""What turns stored samples into rows: decode, preprocess, write."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dtsflow.decode.policy import MAX_PIXELS
from dtsflow.errors import DecodeError
from dtsflow.reader.samples import Samples
from dtsflow.station.zone import Zone

Places = npt.NDArray[np.int64]
Where = Callable[[int], str]
"""Names a sample by file, block and index."""


@dataclass(slots=True)
class StageTimes:
    """Seconds that one worker spent in each stage."""

    read: float = 0.0
    decode: float = 0.0
    po: float = 0.0
    native: float = 0.0  # decode and po in one, where the compiled core runs

    @classmethod
    def sum_of(cls, parts: Iterable["StageTimes"]) -> "StageTimes":
        """The times of several workers together."""
        total = cls()
        for part in parts:
            total.read += part.read
            total.decode += part.decode
            total.po += part.po
            total.native += part.native
        return total


@dataclass(frozen=True, slots=True)
class Address:
    """What the draws of a pass are addressed by, beside the sample."""

    seed: int
    epoch: int
    phase: int


class Engine(Protocol):
    """Fills rows; each worker has its own."""

    times: StageTimes

    def fill(self, samples: Samples, address: Address, zone: Zone, places: Places) -> None:
        """Write the pixels of `samples` into the rows `places` of `zone`, padding too.

        Raises:
            DecodeError: A sample is damaged; says where it lies, its label and its id.
        """


def check_sizes(samples: Samples, sizes: Sequence[Places], where: Where) -> None:
    """Refuse a sample that becomes absurdly big on its way, as a thin one may.

    Raises:
        DecodeError: It would have more than `MAX_PIXELS` before some operation.
    """
    for size in sizes:
        too_big = np.flatnonzero(size[:, 0] * size[:, 1] > MAX_PIXELS)
        for number in too_big:
            height, width = size[number].tolist()
            reason = DecodeError(
                f"an operation would make it {height} x {width} pixels, and at most {MAX_PIXELS} "
                "are allowed"
            )
            raise located(reason, samples, int(number), where)


def located(error: DecodeError, samples: Samples, number: int, where: Where) -> DecodeError:
    """Say of a refused sample where it lies."""
    sample_id = int(samples.ids[number])
    return DecodeError(
        f"{where(sample_id)} (label {samples.labels[number]}, sample_id {sample_id}) cannot be "
        f"decoded: {error}. Replace or remove the image at its source, and pack again."
    )
