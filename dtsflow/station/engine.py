"""What turns stored samples into rows: decode, preprocess, write."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dtsflow.decode.policy import MAX_PIXELS
from dtsflow.errors import DecodeError
from dtsflow.reader.samples import Samples
from dtsflow.station.zone import Zone

Places = npt.NDArray[np.int64]
Bad = dict[int, DecodeError]
"""Samples that are no readable images, by their number in the chunk."""


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

    def fill(self, samples: Samples, address: Address, zone: Zone, places: Places) -> Bad:
        """Write the pixels of `samples` into the rows `places` of `zone`, padding too.

        Answers with the bad samples by their number, and why they are; their rows hold
        anything. None of the samples may be a refused one.
        """

    def probe(self, samples: Samples) -> Bad:
        """The samples that are bad whatever is drawn for them: not even headers."""


def fill_others(  # what `fill` takes, and the bad ones
    engine: Engine, samples: Samples, address: Address, zone: Zone, places: Places, bad: Bad
) -> Bad:
    """Fill as `Engine.fill` does, but for the samples in `bad`; gives all bad ones."""
    others = np.delete(np.arange(len(samples)), list(bad))
    if not len(others):
        return bad
    found = engine.fill(samples.only(others), address, zone, places[others])
    return bad | {int(others[number]): error for number, error in found.items()}


def too_big(sizes: Sequence[Places]) -> Bad:
    """The samples that become absurdly big on their way, as a thin one may.

    That is, of more than `MAX_PIXELS` before some operation.
    """
    return {
        int(number): DecodeError(
            f"an operation would make it {size[number, 0]} x {size[number, 1]} pixels, and at "
            f"most {MAX_PIXELS} are allowed"
        )
        for size in sizes
        for number in np.flatnonzero(size[:, 0] * size[:, 1] > MAX_PIXELS)
    }
