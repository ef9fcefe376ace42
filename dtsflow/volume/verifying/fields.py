"""The words of a header, compared byte by byte."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dtsflow.volume.format import HEADER_BYTES
from dtsflow.volume.header import RECORD


def read_fields(raw: bytes) -> dict[str, Any]:
    """Every field of a header, however damaged; texts are bytes, vectors tuples."""
    record = np.frombuffer(raw, RECORD, 1)[0]
    return {name: _plain(record[name]) for name in RECORD.names or ()}


def patched(raw: bytes, values: Mapping[str, Any]) -> bytes:
    """The header `raw` with other values in some of its fields."""
    record = np.frombuffer(raw, RECORD, 1).copy()
    for name, value in values.items():
        record[name] = value
    return record.tobytes()


def differences(raw: bytes, wanted: bytes) -> tuple[str, ...]:
    """Name each field in which the header `raw` is not `wanted`, with both values."""
    found, right = read_fields(raw), read_fields(wanted)
    return tuple(
        f"{name} is {found[name]!r}, it must be {right[name]!r}"
        for name, place in _PLACES.items()
        # By bytes: -0.0 equals 0.0, and a text hides the zeros at its end.
        if raw[place] != wanted[place]
    )


def strange(raw: bytes) -> tuple[str, ...]:
    """Name the fields that may have several values, and have none of them."""
    fields = read_fields(raw)
    allowed = {"is_training": (0, 1), "val_set_prep": (0, 1), "compress_level": (0, 1, 2, 3)}
    return tuple(
        f"{name} is {fields[name]}, it must be one of {', '.join(map(str, values))}"
        for name, values in allowed.items()
        if fields[name] not in values
    )


def _places() -> dict[str, slice]:
    starts = {name: RECORD.fields[name][1] for name in RECORD.names or ()}  # type: ignore[index]  # a record has fields
    ends = [*list(starts.values())[1:], HEADER_BYTES]
    return {
        name: slice(start, end) for (name, start), end in zip(starts.items(), ends, strict=True)
    }


def _plain(value: Any) -> Any:
    return tuple(value.tolist()) if isinstance(value, np.ndarray) else value.item()


_PLACES = _places()
