"""What became different from one memory plan to another, as text."""

from collections import Counter
from collections.abc import Iterator, Sequence

from dtsflow.tensor.dtensor import DTensor

Key = tuple[str, str, int]


def differences(before: Sequence[DTensor], after: Sequence[DTensor]) -> str:
    """Compare two finished plans, tensor by tensor; equal ones are not mentioned.

    Tensors are the same when region and name are, and those of one name in a region by
    their turn. A line begins with - (gone), + (new), > (bigger), < (smaller), = (other
    forms in as many bytes) or ~ (elsewhere, else unchanged). The last has the totals.
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
