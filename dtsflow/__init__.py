"""dtsflow feeds training: DTS volumes to planned NHWC batches, exactly and fast.

`dtsflow.open` opens a run, `dtsflow.volume` single samples. Both are imported when
first used, so that the command line starts at once.
"""

from typing import TYPE_CHECKING, Any

from dtsflow._version import __version__

if TYPE_CHECKING:
    from dtsflow import volume
    from dtsflow.api import open  # noqa: A004  # dtsflow.open reads as it should

__all__ = ["__version__", "open", "volume"]


def __getattr__(name: str) -> Any:
    from importlib import import_module  # noqa: PLC0415  # only here

    if name == "volume":
        return import_module("dtsflow.volume")
    if name == "open":
        return import_module("dtsflow.api").open
    raise AttributeError(f"module 'dtsflow' has no attribute {name!r}")
