"""The shared parts of all checks: copies by pickle, guarded rows, equal arrays."""

import pickle
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dtsflow.config.configurable import is_configurable
from dtsflow.decode.parser import Arrays
from dtsflow.spec import Field

T = TypeVar("T")

FILLS = (0x00, 0xFF)  # what is not written differs between two runs over these


def pickled(configured: T) -> T:
    """Return the copy that another process would have.

    Raises:
        AssertionError: The class is not `@configurable`, or does not pickle.
    """
    name = type(configured).__name__
    assert is_configurable(type(configured)), f"{name} is not @configurable: YAML cannot name it."
    try:
        copy: T = pickle.loads(pickle.dumps(configured))  # noqa: S301  # made in this line
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise AssertionError(f"{name} does not pickle: {error}") from error
    assert copy == configured, f"{name} is another one after pickling: {copy!r}, not {configured!r}"
    return copy


def filled(
    fields: Sequence[Field], rows: int, fill: Callable[[Arrays], None], byte: int, name: str
) -> dict[str, npt.NDArray[Any]]:
    """Return what `fill` writes into fresh rows of these fields, full of `byte` before.

    Raises:
        AssertionError: It wrote beside the rows, or kept a view of them.
    """
    owners = {field.name: field.empty(rows + 2) for field in fields}
    for owner in owners.values():
        owner.view(np.uint8).reshape(-1)[:] = byte
    out = {key: owner[1:-1] for key, owner in owners.items()}
    fill(out)
    for key, owner in owners.items():
        guards = np.concatenate((owner[:1], owner[-1:])).view(np.uint8)
        assert (guards == byte).all(), f"{name} writes beside the rows of field {key!r}"
    found = {key: rows.copy() for key, rows in out.items()}
    left = {key: weakref.ref(owner) for key, owner in owners.items()}
    del owner, owners, out
    for key, owner_left in left.items():
        kept = owner_left() is not None
        assert not kept, f"{name} keeps a view of field {key!r}, which belongs to its caller"
    return found


def whole(
    fields: Sequence[Field], rows: int, fill: Callable[[Arrays], None], name: str
) -> dict[str, npt.NDArray[Any]]:
    """Return what `fill` writes, if that is every element, and the same each time.

    Raises:
        AssertionError: It is not.
    """
    first, second = (filled(fields, rows, fill, byte, name) for byte in FILLS)
    assert_same(first, second, f"{name} leaves elements unwritten, or is not deterministic")
    return first


def assert_same(
    one: Mapping[str, npt.NDArray[Any]], other: Mapping[str, npt.NDArray[Any]], broken: str
) -> None:
    """Refuse two sets of arrays that differ in a bit."""
    for key, array in one.items():
        same = array.tobytes() == other[key].tobytes()
        assert same, f"{broken} (field {key!r})"
