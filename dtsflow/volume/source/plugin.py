"""Sources that installed plugins bring to a pack."""

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from dtsflow.config.configurable import is_configurable, plugin_packages
from dtsflow.errors import PackError
from dtsflow.volume.datasets.image_list import ImageLoader
from dtsflow.volume.source.base import Listing

GROUP: Final = "dtsflow.sources"
"""The entry points that name a plugin's source: `NAME = package:Class`.

The class is an `ImageLoader`, `@configurable`, of a package that also advertises
`dtsflow.plugins`. Its attribute `path` gets the source, its class variable `suffixes`
says which files are such sources.
"""


def source_names() -> list[str]:
    """Name the plugin sources that `--format` may name; import none."""
    return sorted(point.name for point in entry_points(group=GROUP))


def source_suffixes(name: str) -> tuple[str, ...]:
    """Return how the files of a plugin's source end, as `.csv`.

    Raises:
        PackError: There is no such source, or its plugin cannot be used.
    """
    return _suffixes(name, _loader_class(name))


def source_of(suffix: str) -> str | None:
    """Return the plugin's source that files with this suffix are; None: no plugin's.

    Raises:
        PackError: They are of several, or a plugin cannot be used.
    """
    found = [name for name in source_names() if suffix.lower() in source_suffixes(name)]
    if len(found) > 1:
        raise PackError(
            f"{suffix} files are sources of the plugins {', '.join(found)}. Say which: --format "
            f"{found[0]}."
        )
    return found[0] if found else None


def list_plugin_source(name: str, path: Path, options: Mapping[str, str]) -> Listing:
    """List the images of a plugin's source, in its order.

    `options` are attributes of its class beside `path`.

    Raises:
        PackError: There is no such source, its plugin cannot be used, or an option is
            refused.
        VolumeError: The source is not what it should be.
    """
    made = _loader_class(name)
    if "path" in options:
        raise PackError("--option path=…: the path is the source itself. Leave the option out.")
    try:
        loader = made(path=str(path), **options)
    except ValidationError as error:
        raise PackError(f"{path}: {'; '.join(_refusals(error))}") from error
    assert isinstance(loader, ImageLoader)  # by _loader_class
    return loader.list_images().listing()


def _loader_class(name: str) -> type[Any]:
    points = entry_points(group=GROUP, name=name)
    if not points:
        raise PackError(
            f"there is no source {name!r}. `dtsflow plugins` lists those of installed plugins."
        )
    point = next(iter(points))
    where = f"the source {name!r} is {point.value}"
    if _package(point) not in plugin_packages():
        raise PackError(
            f"{where}, and that package does not advertise the entry point group dtsflow.plugins, "
            "so nothing of it is used."
        )
    try:
        found = point.load()
    except (ImportError, AttributeError) as error:
        raise PackError(
            f"{where}, which cannot be imported: {error}. Install its plugin again."
        ) from error
    if not is_configurable(found) or not hasattr(found, "list_images"):
        raise PackError(f"{where}, and that is no @configurable class with a list_images().")
    assert isinstance(found, type)
    return found


def _package(point: EntryPoint) -> str:
    return point.value.partition(":")[0].partition(".")[0].strip()


def _suffixes(name: str, loader: type[Any]) -> tuple[str, ...]:
    suffixes = getattr(loader, "suffixes", None)
    if not isinstance(suffixes, tuple) or not all(isinstance(one, str) for one in suffixes):
        raise PackError(
            f"the source {name!r}: {loader.__name__}.suffixes is {suffixes!r}, and must be a tuple "
            "such as ('.csv',)."
        )
    return suffixes


def _refusals(error: ValidationError) -> list[str]:
    return [
        f"--option {'.'.join(map(str, one['loc'])) or '…'}: {one['msg']}"
        for one in error.errors(include_url=False, include_context=False)
    ]
