"""Folders that come with an installed package."""

from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from dtsflow.errors import SetError

_SCHEME = "pkg://"


def folder_at(place: str | Path) -> Path:
    """The folder that `place` names; `pkg://PACKAGE/FOLDER` is one within a package.

    Raises:
        SetError: There is no such package, or the folder is not within it.
    """
    text = str(place)
    if not text.startswith(_SCHEME):
        return Path(text).expanduser()
    package, _, inside = text.removeprefix(_SCHEME).partition("/")
    spec = find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise SetError(f"{text}: there is no package {package!r} with folders; install it first.")
    if ".." in PurePosixPath(inside).parts:
        raise SetError(f"{text} leaves the package. Give the path of the folder itself.")
    # An editable install has several places, and not each folder in all of them.
    places = [Path(place) / inside for place in spec.submodule_search_locations]
    return next((place for place in places if place.is_dir()), places[0])
