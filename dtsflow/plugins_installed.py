"""What the plugins of this environment bring."""

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from dtsflow.config.configurable import is_configurable
from dtsflow.errors import DtsflowError
from dtsflow.volume.source.plugin import GROUP as SOURCES
from dtsflow.volume.source.plugin import source_suffixes

GROUP: Final = "dtsflow.plugins"

# The stage of a class that has all of these: what the stage's protocol asks for.
_KINDS: Final = (
    ("volume", ("records",)),
    ("volume", ("list_images",)),
    ("volume", ("prepare", "scan")),
    ("decode", ("fields", "start")),
    ("decode", ("allows_native", "start")),
    ("po", ("out_spec", "draw", "apply")),
    ("po", ("out_fields", "apply")),
    ("arena", ("host_bytes", "open")),
    ("consumer", ("open",)),
    ("consumer", ("init",)),
)

# What running a module's own code for the first time is known to end with.
_FAILURES = (
    ImportError, SyntaxError, NameError, AttributeError, TypeError, ValueError, LookupError,
    OSError, RuntimeError, DtsflowError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """One plugin, as far as it can be imported.

    Attributes:
        name: What its entry point calls it.
        package: Its package, which `_target_` may name.
        project: The installed project and its version.
        conf: Its folder of configs; None: it has none.
        classes: Its configurable classes, each as `_target_` names it, by stage.
        problems: Why a module cannot be imported, a line each.
        sources: What `dtsflow pack` may read by it: names of formats, with the suffixes
            of their files.
    """

    name: str
    package: str
    project: str
    conf: Path | None
    classes: dict[str, tuple[str, ...]]
    problems: tuple[str, ...]
    sources: tuple[str, ...] = ()


def installed_plugins() -> list[InstalledPlugin]:
    """Return all plugins that advertise themselves, by name.

    The plugins are imported.
    """
    points = sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    return [_described(point) for point in points]


def stage_of(configurable: type[Any]) -> str:
    """Return the stage that a class is for, as its methods and attributes show.

    It is `other` if they fit none.
    """
    for stage, names in _KINDS:
        if all(hasattr(configurable, name) for name in names):
            return stage
    return "other"


def _described(point: EntryPoint) -> InstalledPlugin:
    package = point.value.partition(":")[0].partition(".")[0]
    project = "unknown project" if point.dist is None else f"{point.dist.name} {point.dist.version}"
    modules, problems = _modules(package)
    found: dict[str, dict[type[Any], str]] = {}
    for module in modules:
        for name, value in sorted(vars(module).items()):
            if is_configurable(value) and value.__module__.partition(".")[0] == package:
                # The shortest path, for a package offers its classes itself.
                found.setdefault(stage_of(value), {}).setdefault(value, f"{module.__name__}.{name}")
    classes = {stage: tuple(sorted(names.values())) for stage, names in sorted(found.items())}
    sources, more = _sources(package)
    return InstalledPlugin(
        name=point.name,
        package=package,
        project=project,
        conf=_conf(package),
        classes=classes,
        problems=(*problems, *more),
        sources=sources,
    )


def _sources(package: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the package's sources of a pack; also return why others cannot be used."""
    found, problems = [], []
    for point in sorted(entry_points(group=SOURCES), key=lambda point: point.name):
        if point.value.partition(":")[0].partition(".")[0].strip() == package:
            try:
                found.append(f"{point.name} ({' '.join(source_suffixes(point.name))})")
            except DtsflowError as error:
                problems.append(str(error))
    return tuple(found), tuple(problems)


def _modules(package: str) -> tuple[list[ModuleType], tuple[str, ...]]:
    """Return the package and its modules, those nearest to it first.

    Also return why others failed.
    """
    found, problems = [], []
    for name in _names(package):
        try:
            found.append(importlib.import_module(name))
        except _FAILURES as error:
            problems.append(f"{name}: {type(error).__name__}: {' '.join(str(error).split())}")
            if name == package:
                break
    return found, tuple(problems)


def _names(package: str) -> Iterator[str]:
    yield package
    names = (module.name for module in _walk(package))
    yield from sorted(names, key=lambda name: (name.count("."), name))


def _walk(package: str) -> Iterable[pkgutil.ModuleInfo]:
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return pkgutil.iter_modules(places, f"{package}.")


def _conf(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return next((folder for place in places if (folder := Path(place) / "conf").is_dir()), None)
