"""What may be reused between epochs, and what that takes."""

from collections.abc import Sequence
from itertools import pairwise

from dtsflow.era import Era
from dtsflow.errors import PlanError
from dtsflow.po.cut_chain import CutChain
from dtsflow.reader.order import Order, Shuffle
from dtsflow.station.reuse import Reuse
from dtsflow.station.row_store import RowLayout


def longest_row(eras: Sequence[Era]) -> int:
    """Bytes of the longest row that is kept of a sample, in any era."""
    return max(_layout(era).nbytes for era in eras)


def check_reuse(reuse: Reuse, order: Order, eras: Sequence[Era], phase: str) -> None:
    """Refuse a reuse that could not give the rows that no reuse would.

    `phase` is the name of the phase, empty where there is but one.

    Raises:
        PlanError: Says which operation, epoch or setting is in the way.
    """
    where = f"phases.{phase}." if phase else ""
    if reuse.always:
        _check_always(order, eras, where)
    elif reuse.factor > 1:
        _check_groups(reuse.factor, eras, where)
    for era in eras if reuse.slots else ():
        try:
            _layout(era)
        except PlanError as error:
            what = "cpvs=true" if reuse.always else f"sdmp_factor={reuse.factor}"
            raise PlanError(f"{where}decode.{what}: {error}") from error


def _layout(era: Era) -> RowLayout:
    return RowLayout({name: CutChain.of(branch).kept for name, branch in era.branches.items()})


def _check_always(order: Order, eras: Sequence[Era], where: str) -> None:
    if order.shuffle in (Shuffle.BLOCKS, Shuffle.FULL):
        raise PlanError(
            f"{where}decode.cpvs=true keeps rows by their place in the order of blocks, and with "
            f"shuffle={order.shuffle.value} that is another one in every epoch. Set "
            f"{where}reader.shuffle=none (or windows, for a set in blocks), or cpvs=false."
        )
    for era in eras:
        for name, branch in era.branches.items():
            for operation in branch.operations:
                if operation.words:
                    raise PlanError(
                        f"{where}decode.cpvs=true keeps rows for all epochs, and "
                        f"{type(operation).__name__}, which makes {name}, draws others in each. "
                        "Leave it out of this phase's chain, or set cpvs=false."
                    )


def _check_groups(factor: int, eras: Sequence[Era], where: str) -> None:
    for before, era in pairwise(eras):
        if era.first % factor and era.branches != before.branches:
            raise PlanError(
                f"{where}decode.sdmp_factor={factor}: the rows of epoch {era.first} are made in "
                f"epoch {era.first // factor * factor} already, and a schedule changes the chain "
                f"at {era.first}. Let it change at multiples of {factor} only."
            )
