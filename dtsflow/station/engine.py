"""The contract of an engine, which turns stored samples into rows.

It decodes, preprocesses and writes. An output is the rows of one field that are to be
made of a chunk's decoded samples. The draws of a chunk are for one chain or several.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from types import ModuleType
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from dtsflow.decode.decoder import MAX_PIXELS
from dtsflow.errors import DecodeError
from dtsflow.native.core import StepKind
from dtsflow.po.chain import Branch
from dtsflow.po.native import DrawnParams, FusedProgram, Lowered, Rows
from dtsflow.po.operation import Operation
from dtsflow.po.program import Program
from dtsflow.po.resize import choose_scales, shrink
from dtsflow.reader.store import Samples
from dtsflow.station.zone import Zone

Places = npt.NDArray[np.int64]
Bad = dict[int, DecodeError]
"""Samples that are not readable images, by their number in the chunk."""


@dataclass(slots=True)
class StageTimes:
    """Seconds that one worker spent in each stage."""

    read: float = 0.0
    decode: float = 0.0
    po: float = 0.0
    native: float = 0.0  # decode and po in one, where the compiled core runs

    @classmethod
    def sum_of(cls, parts: Iterable["StageTimes"]) -> "StageTimes":
        """Return the times of several workers together."""
        total = cls()
        for part in parts:
            total.read += part.read
            total.decode += part.decode
            total.po += part.po
            total.native += part.native
        return total


@dataclass(frozen=True, slots=True)
class Address:
    """The address of the draws of a pass, beside the sample."""

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
        """Return the samples that are bad whatever is drawn for them.

        Their headers cannot be read.
        """


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
    """Return the samples that become absurdly big on their way, as a thin one may.

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


_CUTS: Final = (StepKind.SCALE, StepKind.SCALE_PLAIN, StepKind.CROP)


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """One chain, as two programs.

    Attributes:
        program: Draws parameters, and runs the chain on the reference path.
        fused: The chain in the core; None on the reference path.
        cuts: Whether it looks at no more than a window of the decoded image.
    """

    program: Program
    fused: FusedProgram | None
    cuts: bool

    @classmethod
    def of(
        cls, branch: Branch, fused: FusedProgram | None, core: ModuleType | None = None
    ) -> "View":
        """Return the programs of a chain.

        The compiled `core` draws what it can.
        """
        return cls(branch.program(core), fused, cuts(branch.operations))


def cuts(operations: tuple[Operation, ...]) -> bool:
    """Tell whether a chain begins with a window of the image."""
    return bool(operations) and isinstance(operations[0], Lowered) and operations[0].step in _CUTS


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """A chain, what was drawn for each sample of a chunk, and where its rows go."""

    view: View
    chosen: DrawnParams
    rows: Rows


@dataclass(frozen=True, slots=True, eq=False)
class ProbedSamples:
    """Samples as their headers tell.

    Attributes:
        samples: The samples, none of them a bad one.
        shapes: Height and width of each, int32 (n, 2).
        handed: Numbers of those that the core leaves to the reference decoder.
    """

    samples: Samples
    shapes: npt.NDArray[np.int32]
    handed: Places


def draw_views(
    programs: Sequence[Program], samples: Samples, address: Address, sizes: Places
) -> tuple[list[DrawnParams], Bad]:
    """Draw for each chain, the first being view 0; and the samples that get too big.

    `sizes` are those of the decoded images, which are to be decoded whole.
    """
    drawn: list[DrawnParams] = []
    bad: Bad = {}
    for view, program in enumerate(programs):
        params, traced = program.draw_with_sizes(
            seed=address.seed,
            ids=samples.draw_ids,
            epoch=address.epoch,
            phase=address.phase,
            sizes=sizes,
            view=view,
        )
        bad |= too_big([traced[place] for place in program.varying])
        drawn.append(DrawnParams(params, traced, np.ones(len(samples), np.int64)))
    return drawn, bad


def shrink_views(drawn: Sequence[DrawnParams], is_jpeg: npt.NDArray[np.bool_]) -> list[DrawnParams]:
    """Let JPEGs be decoded at the smallest size that will do for all chains.

    Each chain must begin with cutting a window and scaling it.
    """
    chosen = [choose_scales(one.params[0], one.sizes[1]) for one in drawn]
    scales = np.where(is_jpeg, reduce(np.minimum, chosen), 1)
    return [
        replace(one, params=[shrink(one.params[0], scales), *one.params[1:]], scales=scales)
        for one in drawn
    ]
