"""Checks of a finished plan, and the differences between two plans as text.

The plan is laid out so that all the checks pass. They are independent of how it is laid
out, so any tensors with offsets can be checked.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.align import ALIGN
from dtsflow.memory.region import PlanConfig, Region
from dtsflow.tensor.tensor import DTensor

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


def validate(tensors: Sequence[DTensor], config: PlanConfig | None = None) -> None:
    """Run every check.

    Raises:
        MemoryPlanError: One does not hold; the message has both numbers.
    """
    check_region_order(tensors)
    check_contiguity(tensors)
    check_layers(tensors, config)
    check_alignment(tensors)


def check_region_order(tensors: Iterable[DTensor]) -> None:
    """Check that regions begin one after the other, in the order of `Region`."""
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
    """Check that each slot begins where the one before it ends, from byte 0 on.

    Because of this a run of regions is one piece, and one copy moves a zone's labels
    and data.
    """
    end = 0
    for tensor in sorted(tensors, key=lambda tensor: (tensor.region.index, tensor.id)):
        if tensor.offset != end:
            raise MemoryPlanError(
                f"{tensor} begins at byte {tensor.offset}, and the slot before it ends at "
                f"byte {end}. Slots must touch, so that a run of regions is one piece."
            )
        end += tensor.slot_bytes


def check_layers(tensors: Iterable[DTensor], config: PlanConfig | None = None) -> None:
    """Check that weights have gradients, moments and copies, in slots like their own.

    Slots are alike when they have as many elements, so that a flat kernel over two runs
    meets a weight and its helper at one index. `config` decides which helpers there
    must be; without it, each family of which the plan holds a tensor.
    """
    slots: dict[Region, list[DTensor]] = {region: [] for region in Region}
    for tensor in tensors:
        slots[tensor.region].append(tensor)
    for layer in _LAYERS:
        _check_alike(slots, f"G_{layer}", layer)
    for names in _HELPERS:
        regions = [Region[name] for name in names]
        if config.allows(regions[0]) if config else any(slots[region] for region in regions):
            for name in names:
                _check_alike(slots, name, name[2:].removesuffix("_FP16"))


def check_alignment(tensors: Iterable[DTensor]) -> None:
    """Check that every offset is a multiple of 256 bytes."""
    for tensor in tensors:
        if tensor.offset % ALIGN:
            raise MemoryPlanError(
                f"{tensor} begins at byte {tensor.offset}, {tensor.offset % ALIGN} bytes "
                f"past a multiple of {ALIGN}. Round the slots before it up."
            )


def _check_alike(slots: Mapping[Region, Sequence[DTensor]], name: str, layer: str) -> None:
    region, weights = Region[name], Region[f"W_{layer}"]
    if len(slots[region]) != len(slots[weights]):
        raise MemoryPlanError(
            f"{region.name} holds {len(slots[region])} tensors and {weights.name} "
            f"{len(slots[weights])}: every weight needs its own. Allocate both together."
        )
    for helper, weight in zip(slots[region], slots[weights], strict=True):
        has, needs = _elements(helper), _elements(weight)
        if has != needs:
            raise MemoryPlanError(
                f"the slot of {helper} has room for {has} elements, and that of {weight}, "
                f"which it belongs to, for {needs}. Allocate both in the same shapes and order."
            )


def _elements(tensor: DTensor) -> int:
    """Return the elements of the whole slot, spare ones included."""
    return tensor.slot_bytes // tensor.dtype.itemsize


Key = tuple[str, str, int]


def differences(before: Sequence[DTensor], after: Sequence[DTensor]) -> str:
    """Compare two finished plans, tensor by tensor; equal ones are not mentioned.

    Tensors are the same when region and name are, and those of one name in a region by
    their order. A line begins with - (gone), + (new), > (bigger), < (smaller), = (other
    forms in as many bytes) or ~ (another offset, else unchanged). The last has the
    totals.
    """
    old, new = _by_name(before), _by_name(after)
    lines = [f"- {_what(key)}: {_slot(old[key])}" for key in old if key not in new]
    for key, tensor in new.items():
        if key in old:
            lines += _change(_what(key), old[key], tensor)
        else:
            lines.append(f"+ {_what(key)}: {_slot(tensor)}")
    totals = [sum(tensor.slot_bytes for tensor in plan) for plan in (before, after)]
    lines.append(f"total {totals[0]:,} -> {totals[1]:,} bytes ({totals[1] - totals[0]:+,})")
    return "\n".join(lines)


def _by_name(tensors: Sequence[DTensor]) -> dict[Key, DTensor]:
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for tensor in tensors:
        name = tensor.region.name, tensor.name
        found[*name, seen[name]] = tensor
        seen[name] += 1
    return found


def _change(what: str, old: DTensor, new: DTensor) -> Iterator[str]:
    grown = new.slot_bytes - old.slot_bytes
    if grown or _forms(old) != _forms(new):
        sign = ">" if grown > 0 else "<" if grown < 0 else "="
        yield f"{sign} {what}: {_slot(old)} -> {_slot(new)} ({grown:+,})"
    elif old.offset != new.offset:
        yield f"~ {what}: offset {old.offset:,} -> {new.offset:,}"


def _what(key: Key) -> str:
    region, name, turn = key
    return " ".join([region, *([repr(name)] if name else []), *([f"#{turn}"] if turn else [])])


def _forms(tensor: DTensor) -> str:
    return "|".join(f"{form.dtype.value}{form.shape}" for form in tensor.forms)


def _slot(tensor: DTensor) -> str:
    return f"{_forms(tensor)}, {tensor.slot_bytes:,} bytes at {tensor.offset:,}"
