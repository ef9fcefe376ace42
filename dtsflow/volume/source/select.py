"""The choice of what a source packs, with which labels and in which order.

`mixing_key` orders images without a pattern, from their names alone. `merge` makes one
source of several.
"""

import difflib
import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from pathlib import Path

from dtsflow.errors import PackError
from dtsflow.volume.source.base import NO_CLASS, Listing, SourceImage, numbered_lines
from dtsflow.volume.source.labels import label_by, number_by, read_classes, read_labels


def mixing_number(name: str) -> int:
    """Return a number below 2^64 from a digest of the name.

    It is the same with every library version, and does not depend on the class.
    """
    raw = name.encode("utf-8", "surrogatepass")  # a name on disk may not be text
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "big")


def mixing_key(name: str) -> tuple[int, str]:
    """Return the sort key of a name for an order that mixes classes."""
    return mixing_number(name), name


@dataclass(frozen=True, slots=True)
class Choice:
    """Labels, class numbers and a subset; nothing given means all of it as it is.

    `labels` is a CSV of names and classes, `classes` a file of class names in their
    order, `ids` a file with one index of the listing a line. `fraction` is the share of
    each class, `limit` the most images of all. All given conditions hold together.

    Raises:
        PackError: `fraction` is not in (0, 1], or `limit` is below 1.
    """

    labels: Path | None = None
    classes: Path | None = None
    only: tuple[str, ...] = ()
    ids: Path | None = None
    fraction: float | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise PackError(f"a fraction of {self.fraction}; give more than 0 and at most 1.")
        if self.limit is not None and self.limit < 1:
            raise PackError(f"a limit of {self.limit} images; give 1 or more.")


@dataclass(frozen=True, slots=True)
class Chosen:
    """The images to pack, and how many images the subset leaves out.

    An image is in `listing.images`, in `listing.rejects`, or one of the `left_out`.
    """

    listing: Listing
    left_out: int


def choose(listing: Listing, choice: Choice) -> Chosen:
    """Label, number, then take the subset: only, ids, fraction, limit, in this order.

    Classes keep their numbers, also those that the subset leaves empty, and images
    their order. `ids` count in the order of `listing.images` as it came: samples of
    volumes, else sorted names. Which images a fraction or a limit takes depends on
    their names only, so a smaller share is part of a larger one.

    Raises:
        PackError: A file of the choice cannot be read or does not fit the source, a
            class is unknown, or no image is left.
    """
    wanted = _wanted(listing, choice.ids) if choice.ids else None
    labelled = _relabel(listing, choice)
    images: Sequence[SourceImage] = labelled.images
    if choice.only:
        kept = {_find(name, labelled.classes) for name in choice.only}
        images = [image for image in images if image.label in kept]
    if wanted is not None:
        images = [image for image in images if image.name in wanted]
    if choice.fraction is not None:
        images = _share(images, choice.fraction)
    if choice.limit is not None:
        images = _first(images, choice.limit)
    chosen = tuple(images)
    if labelled.images and not chosen:
        raise PackError(
            f"of {len(labelled.images)} images the subset leaves none. Ask for more classes or "
            "other ids."
        )
    left_out = len(labelled.images) - len(chosen)
    return Chosen(replace(labelled, images=chosen), left_out)


def _relabel(listing: Listing, choice: Choice) -> Listing:
    if choice.labels is not None:
        listing = label_by(listing, read_labels(choice.labels), choice.labels)
    if choice.classes is not None:
        listing = number_by(listing, read_classes(choice.classes), choice.classes)
    return listing


def _wanted(listing: Listing, path: Path) -> set[str]:
    names: set[str] = set()
    images = listing.images
    for number, line in numbered_lines(path):
        text = line.strip()
        # No index has more digits than the number of images has.
        is_index = text.isascii() and text.isdigit() and len(text) <= len(str(len(images)))
        if not is_index or int(text) >= len(images):
            raise PackError(
                f"{path} line {number} is {line!r}; an id is a whole number from 0 to "
                f"{len(images) - 1}, the last image of the source."
            )
        name = images[int(text)].name
        if name in names:
            raise PackError(f"{path} line {number}: the id {text} comes twice. Remove one.")
        names.add(name)
    return names


def _find(name: str, classes: tuple[str, ...]) -> int:
    if name in classes:
        return classes.index(name)
    near = difflib.get_close_matches(name, classes, n=1, cutoff=0)
    hint = f"did you mean {near[0]!r}?" if near else "the source has no classes."
    raise PackError(f"there is no class {name!r} among {len(classes)}; {hint}")


def _share(images: Sequence[SourceImage], fraction: float) -> list[SourceImage]:
    by_label: dict[int, list[SourceImage]] = defaultdict(list)
    for image in images:
        by_label[image.label].append(image)
    kept: set[str] = set()
    for members in by_label.values():
        most = max(1, round(len(members) * fraction))
        kept.update(image.name for image in _first(members, most))
    return [image for image in images if image.name in kept]


def _first(images: Sequence[SourceImage], most: int) -> list[SourceImage]:
    kept = set(nsmallest(most, (image.name for image in images), key=mixing_key))
    return [image for image in images if image.name in kept]


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
