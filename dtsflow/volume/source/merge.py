"""Several sources as one."""

from collections.abc import Sequence
from dataclasses import replace

from dtsflow.errors import PackError
from dtsflow.volume.source.listing import NO_CLASS, Listing, SourceImage


def merge(listings: Sequence[Listing]) -> Listing:
    """Put the images of all sources behind one another, in the order given.

    Equal classes stay. Others become the sorted union of their names (of numbers, in
    the order of numbers), and labels follow. Of images with one name the first keeps
    it; those of source k, counted from 0, get `k-` before their base names.

    Raises:
        PackError: One source has numbers from 0 on where another has names, so that
            nothing tells which number is which name.
    """
    assert listings
    classes = _union(listings)
    labels = {name: label for label, name in enumerate(classes)}
    seen: set[str] = set()
    images: list[SourceImage] = []
    for source, listing in enumerate(listings):
        new = {label: labels[name] for label, name in enumerate(listing.classes)}
        new[NO_CLASS] = NO_CLASS
        for image in listing.images:
            name = _free(image.name, source, seen)
            seen.add(name)
            images.append(replace(image, name=name, label=new[image.label]))
    rejects = tuple(reject for listing in listings for reject in listing.rejects)
    return Listing(classes, tuple(images), rejects)


def _union(listings: Sequence[Listing]) -> tuple[str, ...]:
    parts = [listing.classes for listing in listings]
    if len(set(parts)) == 1:
        return parts[0]
    names = {name for part in parts for name in part}
    if all(name.isascii() and name.isdigit() for name in names):
        # By length first, which spares turning very long ones into numbers.
        return tuple(
            sorted(names, key=lambda name: (len(name.lstrip("0")), name.lstrip("0"), name))
        )
    for source, part in enumerate(parts):
        if part and part == tuple(map(str, range(len(part)))):
            where = "".join(f" ({image.stored.path})" for image in listings[source].images[:1])
            raise PackError(
                f"source {source}{where} has the class numbers 0 to {len(part) - 1}, another has "
                "names, and nothing tells which number is which name. Pack that source alone "
                "with --classes FILE, a name for each number, then merge the two."
            )
    return tuple(sorted(names))


def _free(name: str, source: int, seen: set[str]) -> str:
    while name in seen:
        folder, slash, base = name.rpartition("/")
        name = f"{folder}{slash}{source}-{base}"
    return name
