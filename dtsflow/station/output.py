"""What is to be made of the decoded samples of a chunk: rows of one field."""

from dataclasses import dataclass
from types import ModuleType
from typing import Final

import numpy as np
import numpy.typing as npt

from dtsflow.native.steps import StepKind
from dtsflow.po.branch import Branch
from dtsflow.po.fused import Chosen, FusedProgram, Lowered, Rows
from dtsflow.po.operation import Operation
from dtsflow.po.program import Program
from dtsflow.reader.samples import Samples
from dtsflow.station.engine import Places

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
        """The programs of a chain; the compiled `core` draws what it can."""
        return cls(branch.program(core), fused, cuts(branch.operations))


def cuts(operations: tuple[Operation, ...]) -> bool:
    """Whether a chain begins with a window of the image."""
    return bool(operations) and isinstance(operations[0], Lowered) and operations[0].step in _CUTS


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """A chain, what was drawn for each sample of a chunk, and where its rows go."""

    view: View
    chosen: Chosen
    rows: Rows


@dataclass(frozen=True, slots=True, eq=False)
class Examined:
    """Samples as their headers tell.

    Attributes:
        samples: The samples, none of them a bad one.
        shapes: Height and width of each, int32 (n, 2).
        handed: Numbers of those that the core leaves to the reference decoder.
    """

    samples: Samples
    shapes: npt.NDArray[np.int32]
    handed: Places
