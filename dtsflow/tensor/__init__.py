"""Shapes, element types and tensors: the vocabulary of memory.

Each name is imported when it is first used, for tensors lie in regions of memory, and
memory is made of tensors: whichever package comes first needs the other.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dtsflow.tensor.dtype import DType
    from dtsflow.tensor.shape import Shape
    from dtsflow.tensor.tensor import DTensor, Tensor

__all__ = [
    "DTensor",
    "DType",
    "Shape",
    "Tensor",
]

_HOMES = {
    "DTensor": "dtsflow.tensor.tensor",
    "DType": "dtsflow.tensor.dtype",
    "Shape": "dtsflow.tensor.shape",
    "Tensor": "dtsflow.tensor.tensor",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
