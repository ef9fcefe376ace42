"""Which image each row of a labels CSV means."""

from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from dtsflow.errors import PackError
from dtsflow.volume.image_suffix import IMAGE_SUFFIXES


def match(names: Iterable[str], rows: Collection[str], path: Path) -> dict[str, str]:
    """From the names of images to the row that means each, where one does.

    A row means the image with its whole name; else with its base name; else with its
    base name but for an image's suffix. The last two only where no other row and no
    other image has the same. `path` is the file of the rows.

    Raises:
        PackError: A row means no image, or could mean several.
    """
    images = dict.fromkeys(names)
    found = {name: name for name in images if name in rows}
    free = {row for row in rows if row not in found}
    for reduced in (_base, _stem):
        if not free:
            break
        by_image = _unique(images, reduced)
        for key, row in _unique(rows, reduced).items():
            image = by_image.get(key)
            if row in free and image is not None and image not in found:
                found[image] = row
                free.remove(row)
    if free:
        raise _unmatched(free, rows, images, path)
    return found


def _unique(names: Iterable[str], reduced: Callable[[str], str]) -> dict[str, str | None]:
    """From each reduced name to the one it was; None where several were."""
    found: dict[str, str | None] = {}
    for name in names:
        key = reduced(name)
        found[key] = None if key in found else name
    return found


def _unmatched(
    free: Collection[str], rows: Iterable[str], images: Iterable[str], path: Path
) -> PackError:
    first = next(row for row in rows if row in free)
    alike = [name for name in images if _stem(name) == _stem(first)]
    if len(alike) > 1:
        return PackError(
            f"{path}: the row of {first!r} could mean {len(alike)} images, {alike[0]} and "
            f"{alike[1]} among them. Write the name with its folder, and each image once."
        )
    return PackError(
        f"{path}: {len(free)} of its rows mean no image of the source, the first is that of "
        f"{first!r}. Correct the names, add the files, or remove the rows."
    )


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def _stem(name: str) -> str:
    base = _base(name)
    stem, dot, suffix = base.rpartition(".")
    return stem if f"{dot}{suffix}".lower() in IMAGE_SUFFIXES else base
