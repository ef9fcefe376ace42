"""Finding the compiled core, or why it is not there."""

import logging
import os
from functools import cache
from importlib.util import find_spec
from types import ModuleType

log = logging.getLogger(__name__)

SWITCH = "DTSFLOW_NATIVE"  # 0: the reference path runs, as if the core had not been built


def load() -> ModuleType | None:
    """The compiled core, None where it is absent or switched off."""
    return _find()[0]


def why_absent() -> str:
    """Why `load` gives None, and what to do; empty where it gives the core."""
    return _find()[1]


@cache  # so every worker may call it, and the process says it once
def warn_absent() -> None:
    """Log, once a process, that the reference path runs, which is slower, and why."""
    log.warning("the reference path decodes and preprocesses, which is slower: %s", why_absent())


@cache
def _find() -> tuple[ModuleType | None, str]:
    if os.environ.get(SWITCH) == "0":
        return None, f"the native core is switched off by {SWITCH}=0"
    if find_spec("dtsflow.native._core") is None:
        return None, (
            "the native core was not built: install a C++20 compiler and libjpeg-turbo's headers "
            "(Debian: g++ libjpeg62-turbo-dev), then dtsflow again"
        )
    try:
        from dtsflow.native import _core  # noqa: PLC0415  # it may not have been built
    except ImportError as error:
        return None, f"the native core cannot be loaded ({error}): install dtsflow again"
    return _core, ""
