"""Restart markers, between which a part of a JPEG can be decoded alone.

A decoder that wants a window has to read all coded data above it and beside it, unless
markers tell where a row's parts begin. They cost about a hundredth of a file, which
better coding tables win back. Coefficients and metadata stay, so all pixels do.
"""

from types import ModuleType

from dtsflow.errors import PackError
from dtsflow.native.core import load, why_absent


def check_restarts() -> None:
    """Raise PackError where no markers can be written."""
    _core()


def add_restarts(data: bytes) -> bytes:
    """The same image with restart markers; `data` itself where it is no plain JPEG.

    Raises:
        PackError: There is no native core.
    """
    made: bytes | None = _core().add_restarts(data)
    return data if made is None else made


def _core() -> ModuleType:
    core = load()
    if core is None:
        raise PackError(f"restart markers are written by the native core, but {why_absent()}.")
    return core
