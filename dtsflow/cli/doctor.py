"""`dtsflow doctor`: what is here, what is missing, and what to do about it."""

import importlib.util
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from PIL import features

from dtsflow.decode.turbojpeg import turbo_version
from dtsflow.memory.drawing import human_bytes
from dtsflow.memory.limit import cpu_limit, memory_limit
from dtsflow.native.core import load, why_absent
from dtsflow.report.report import versions


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the examination; `remedy` is empty where nothing is to be done."""

    what: str
    state: str
    remedy: str = ""


def main(_words: list[str]) -> int:
    """Examine this machine; 0, for nothing optional is a fault."""
    for examine in CHECKS:
        finding = examine()
        mark = "!" if finding.remedy else " "
        print(f"{mark} {finding.what:<16} {finding.state}")
        if finding.remedy:
            print(f"  {'':<16} -> {finding.remedy}")
    return 0


def _python() -> Finding:
    found = versions()
    stack = ", ".join(f"{name} {found[name]}" for name in ("numpy", "hydra-core", "pydantic"))
    return Finding("python", f"{sys.version.split()[0]} ({stack})")


def _turbojpeg() -> Finding:
    found = turbo_version()
    if found:
        return Finding("libjpeg-turbo", found)
    return Finding(
        "libjpeg-turbo",
        "libturbojpeg not found: Pillow decodes, slower",
        "Debian: apt-get install libturbojpeg0; Ubuntu: apt-get install libturbojpeg",
    )


def _pillow() -> Finding:
    turbo = features.version_feature("libjpeg_turbo")
    return Finding("pillow", f"{version('Pillow')}, its own libjpeg-turbo {turbo or 'missing'}")


def _native() -> Finding:
    core = load()
    if core is None:
        reason, _, remedy = why_absent().partition(": ")
        return Finding("native core", f"{reason}: the reference path runs, slower", remedy)
    return Finding("native core", f"here, with {core.cpu_level()} instructions")


def _mpi() -> Finding:
    if importlib.util.find_spec("mpi4py") is None:
        return Finding("mpi", "mpi4py is not installed; one process works without it")
    beside = Path(sys.executable).parent  # an MPI from PyPI lies in the environment
    launcher = shutil.which("mpiexec") or shutil.which("mpiexec", path=str(beside))
    if launcher is None:
        return Finding(
            "mpi",
            f"mpi4py {version('mpi4py')}, but no mpiexec",
            "pip install 'dtsflow[mpi-wheel]', or your system's MPI",
        )
    return Finding("mpi", f"mpi4py {version('mpi4py')}, {launcher}")


def _cupy() -> Finding:
    if importlib.util.find_spec("cupy") is None:
        return Finding("cupy", "not installed; host memory works without it")
    return Finding("cupy", "installed; device arenas are not part of this version")


def _memory() -> Finding:
    return Finding("memory limit", f"{human_bytes(memory_limit())} (machine and control group)")


def _cpus() -> Finding:
    cpus = cpu_limit()
    return Finding("cpus", f"{cpus} allowed: workers=auto means {cpus}")


CHECKS: tuple[Callable[[], Finding], ...] = (
    _python,
    _turbojpeg,
    _pillow,
    _native,
    _mpi,
    _cupy,
    _memory,
    _cpus,
)
