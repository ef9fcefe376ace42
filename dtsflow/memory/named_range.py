"""Runs of regions that one operation handles whole, by the name of their use."""

from typing import Final

from dtsflow.configurable import nearest
from dtsflow.errors import MemoryPlanError
from dtsflow.memory.region import Region

_FAMILIES: Final = {
    "weights": "W",
    "gradients": "G",
    "first_moments": "M",
    "second_moments": "V",
    "ema": "E",
}


def _of_layers(family: str) -> dict[str, tuple[Region, Region]]:
    """A family whole, and its two halves: what does not decay lies before what does."""
    letter = _FAMILIES[family]
    first, last = Region[f"{letter}_BN_BIAS"], Region[f"{letter}_DEEP_CONV"]
    return {
        family: (first, last),
        f"{family}_undecayed": (first, Region[f"{letter}_FC_BIAS"]),
        f"{family}_decayed": (Region[f"{letter}_FC_WEIGHT"], last),
    }


# Source of the runs: Tech-Renaissance's compiler, from whose kernels the order comes.
NAMED_RANGES: Final[dict[str, tuple[Region, Region]]] = {
    **{name: span for family in _FAMILIES for name, span in _of_layers(family).items()},
    "weights_half": (Region.A_FC_WEIGHT, Region.A_DEEP_CONV),
    "ema_half": (Region.E_FC_WEIGHT_FP16, Region.E_DEEP_CONV_FP16),
    "gradients_half": (Region.G_FC_WEIGHT_FP16, Region.G_DEEP_CONV_FP16),
    "gradients_to_clear": (Region.G_BN_BIAS, Region.G_DEEP_CONV_FP16),
    "reduce_bucket_1": (Region.G_DEEP_CONV, Region.R_RESULT),
    "reduce_bucket_2": (Region.G_BN_BIAS, Region.G_FIRST_CONV),
    "norms": (Region.N_FC_WEIGHT, Region.N_DEEP_CONV),
    "bn_statistics": (Region.B_NEXT_MEAN, Region.B_NEXT_VAR),
    "bn_statistics_previous": (Region.B_PREV_MEAN, Region.B_PREV_VAR),
    "input_a": (Region.I_A_LABEL, Region.I_A_DATA),
    "input_b": (Region.I_B_LABEL, Region.I_B_DATA),
    "results": (Region.R_RESULT, Region.R_RESULT),
    "results_accumulated": (Region.R_RESULT_ACCUMULATED, Region.R_RESULT_ACCUMULATED),
}
"""First and last region, inclusive. What belongs together has equal element counts:
`weights`, `gradients`, the moments and `ema`, their parts alike, and each `_decayed`
run of FP32 with its `_half`. The buckets are the pieces in which gradients are summed
over ranks; the first, of the deep convolutions, carries the step's results along."""


def named_range(name: str) -> tuple[Region, Region]:
    """The first and last region of a run.

    Raises:
        MemoryPlanError: No run has that name.
    """
    if name not in NAMED_RANGES:
        raise MemoryPlanError(
            f"there is no run of regions named {name!r}.{nearest(name, NAMED_RANGES)}"
        )
    return NAMED_RANGES[name]
