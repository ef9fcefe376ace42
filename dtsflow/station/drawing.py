"""What is drawn for a chunk that goes through one chain or several."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from dtsflow.po.fused import Chosen
from dtsflow.po.program import Program
from dtsflow.po.shrink import choose_scales, shrink
from dtsflow.reader.samples import Samples
from dtsflow.station.engine import Address, Bad, Places, too_big


def draw_views(
    programs: Sequence[Program], samples: Samples, address: Address, sizes: Places
) -> tuple[list[Chosen], Bad]:
    """Draw for each chain, the first being view 0; and the samples that get too big.

    `sizes` are those of the decoded images, which are to be decoded whole.
    """
    drawn: list[Chosen] = []
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
        drawn.append(Chosen(params, traced, np.ones(len(samples), np.int64)))
    return drawn, bad


def shrink_views(drawn: Sequence[Chosen], is_jpeg: npt.NDArray[np.bool_]) -> list[Chosen]:
    """Let JPEGs be decoded at the smallest size that will do for all chains.

    Each chain must begin with cutting a window and scaling it.
    """
    chosen = [choose_scales(one.params[0], one.sizes[1]) for one in drawn]
    scales = np.where(is_jpeg, reduce(np.minimum, chosen), 1)
    return [
        replace(one, params=[shrink(one.params[0], scales), *one.params[1:]], scales=scales)
        for one in drawn
    ]
