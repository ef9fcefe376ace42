"""From a path or a pattern to the volumes it names."""

import glob
from pathlib import Path

from dtsflow.errors import SetError
from dtsflow.volume.format import SUFFIX


def find(path: str | Path) -> list[Path]:
    """The volumes that a file, a folder (its *.dts) or a glob pattern names, sorted.

    A path that exists is never taken for a pattern, whatever characters it has.

    Raises:
        SetError: There is none; says what was looked for.
    """
    place = Path(path).expanduser()
    if place.is_dir():
        found = [entry for entry in place.iterdir() if _is_volume(entry)]
        looked_for = f"*{SUFFIX} in the folder {place}"
    elif _exists(place):
        if not place.is_file():
            raise SetError(f"{place} is no regular file. Name a volume, a folder or a pattern.")
        return [place]
    else:
        found = [Path(name) for name in glob.glob(str(place), recursive=True)]  # noqa: PTH207  # Path.glob takes no absolute pattern
        found = [entry for entry in found if entry.is_file()]
        looked_for = f"{place} (no such file or folder, and as a pattern it matches nothing)"
    if not found:
        raise SetError(
            f"no volume found: looked for {looked_for}, from the working folder {Path.cwd()}. "
            "Check the path, or pack one with `dtsflow pack`."
        )
    return sorted(found)


def _exists(place: Path) -> bool:
    try:
        return place.exists()
    except OSError as error:  # a name longer than the system allows
        raise SetError(f"{str(place)[:80]}… cannot be looked up: {error.strerror}.") from error


def _is_volume(entry: Path) -> bool:
    # A writer's unfinished file is hidden.
    return entry.suffix == SUFFIX and not entry.name.startswith(".") and entry.is_file()
