"""What must hold for the tensors of a finished plan.

The plan is laid out so that all of this is true; the checks are independent of how that
is done, and any tensors with offsets can be handed to them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.align import ALIGN
from dtsflow.memory.region import Region
from dtsflow.tensor.dtensor import DTensor

_LAYERS: Final = ("BN_BIAS", "BN_WEIGHT", "FC_BIAS", "FC_WEIGHT", "FIRST_CONV", "DEEP_CONV")
_DECAYED: Final = _LAYERS[3:]
_HELPERS: Final = (  # regions beside the weights: all filled like them, or all empty
    [f"M_{layer}" for layer in _LAYERS],
    [f"V_{layer}" for layer in _LAYERS],
    [f"N_{layer}" for layer in _DECAYED],
    [f"E_{layer}" for layer in _LAYERS],
    [f"E_{layer}_FP16" for layer in _DECAYED],
    [f"A_{layer}" for layer in _DECAYED],
    [f"G_{layer}_FP16" for layer in _DECAYED],
)


def validate(tensors: Sequence[DTensor]) -> None:
    """Run every check.

    Raises:
        MemoryPlanError: One does not hold; the message has both numbers.
    """
    check_region_order(tensors)
    check_contiguity(tensors)
    check_layers(tensors)
    check_alignment(tensors)


def check_region_order(tensors: Iterable[DTensor]) -> None:
    """Regions begin one after the other, in the order of `Region`."""
    bases: dict[Region, int] = {}
    for tensor in tensors:
        bases[tensor.region] = min(tensor.offset, bases.get(tensor.region, tensor.offset))
    for first, second in pairwise(sorted(bases, key=lambda region: region.index)):
        if bases[first] > bases[second]:
            raise MemoryPlanError(
                f"{first.name} begins at byte {bases[first]} and {second.name}, which "
                f"comes after it, at byte {bases[second]}. Lay the regions out in order."
            )


def check_contiguity(tensors: Iterable[DTensor]) -> None:
    """Each slot begins where the one before it ends, from byte 0 on.

    So a run of regions is one piece, and one copy moves a zone's labels and data.
    """
    end = 0
    for tensor in sorted(tensors, key=lambda tensor: (tensor.region.index, tensor.id)):
        if tensor.offset != end:
            raise MemoryPlanError(
                f"{tensor} begins at byte {tensor.offset}, and the slot before it ends at "
                f"byte {end}. Slots must touch, so that a run of regions is one piece."
            )
        end += tensor.slot_bytes


def check_layers(tensors: Iterable[DTensor]) -> None:
    """Every weight has its gradient, and moments and copies where there are any."""
    counts = Counter(tensor.region for tensor in tensors)
    for layer in _LAYERS:
        _check_same_count(counts, f"G_{layer}", layer)
    for names in _HELPERS:
        if any(counts[Region[name]] for name in names):
            for name in names:
                _check_same_count(counts, name, name[2:].removesuffix("_FP16"))


def check_alignment(tensors: Iterable[DTensor]) -> None:
    """Every offset is a multiple of 256 bytes."""
    for tensor in tensors:
        if tensor.offset % ALIGN:
            raise MemoryPlanError(
                f"{tensor} begins at byte {tensor.offset}, {tensor.offset % ALIGN} bytes "
                f"past a multiple of {ALIGN}. Round the slots before it up."
            )


def _check_same_count(counts: Counter[Region], name: str, layer: str) -> None:
    region, weights = Region[name], Region[f"W_{layer}"]
    if counts[region] != counts[weights]:
        raise MemoryPlanError(
            f"{region.name} holds {counts[region]} tensors and {weights.name} "
            f"{counts[weights]}: every weight needs its own. Allocate both together."
        )
