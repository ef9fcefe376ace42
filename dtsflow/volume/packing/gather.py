"""What is to be packed, from the sources and the options."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from dtsflow.errors import PackError, SetError
from dtsflow.volume.format import BLOCK_ROOM, SUFFIX
from dtsflow.volume.packing import upstream
from dtsflow.volume.packing.options import Packing
from dtsflow.volume.packing.prepare import Candidate, Preparer
from dtsflow.volume.packing.recipe import Recipe
from dtsflow.volume.scan import scan
from dtsflow.volume.source.choice import choose
from dtsflow.volume.source.listing import NO_CLASS, Listing, Reject, SourceImage
from dtsflow.volume.source.merge import merge
from dtsflow.volume.source.open_source import list_source

Progress = Callable[[str, int, int], None]  # what is being done, images done, images in all

_SHOWN = 5  # rejects that a message lists


@dataclass(frozen=True, slots=True)
class Gathered:
    """All images of the sources: what may be packed, what cannot, what is not wanted.

    `candidates` are sorted by name.
    """

    classes: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    rejects: tuple[Reject, ...]
    left_out: int


def gather(sources: Sequence[Path], packing: Packing) -> Gathered:
    """List the sources and choose among their images; none is opened.

    Raises:
        PackError: A source holds no image, or labels and classes do not fit.
    """
    listings = [list_source(source, packing.source) for source in sources]
    listing = listings[0] if len(listings) == 1 else merge(listings)
    if not listing.images and not listing.rejects:
        names = ", ".join(map(str, sources))
        raise PackError(f"{names} holds no images (.jpg .jpeg .png .webp .bmp) at any depth.")
    chosen = choose(listing, packing.choice)
    listing = chosen.listing
    if packing.layout.upstream:
        listing = _as_upstream(listing, numbered=packing.choice.classes is not None)
    images = sorted(listing.images, key=lambda image: image.name)
    candidates = tuple(map(Candidate, images))
    return Gathered(listing.classes, candidates, listing.rejects, chosen.left_out)


def make_preparer(sources: Sequence[Path], packing: Packing, images: int) -> Preparer:
    """What makes the stored images.

    Pixels stay unchanged at level 0, and where the sources are volumes that were made
    by the very same recipe.
    """
    is_upstream = packing.layout.upstream
    recipe = packing.encoding.recipe(upstream=is_upstream)
    if recipe is not None and all(_was_made_by(recipe, source) for source in sources):
        recipe = None
    return Preparer(
        recipe=recipe,
        capacity=BLOCK_ROOM[packing.encoding.level],
        reencodes=packing.layout.oversize == "reencode",
        sampled_from=0 if is_upstream else images,
        restarts=packing.encoding.restarts,
    )


def _was_made_by(recipe: Recipe, source: Path) -> bool:
    if source.suffix != SUFFIX and not source.is_dir():
        return False
    try:
        files = scan(source).files
    except SetError:
        return False  # a folder of images
    made = [None if file.extension is None else file.extension.about.options for file in files]
    return all(options is not None and options.get("recipe") == recipe.facts() for options in made)


def refuse_none(rejects: Sequence[Reject]) -> NoReturn:
    """Raise PackError: every image was rejected."""
    shown = "".join(f"\n  {reject.name}: {reject.reason}" for reject in rejects[:_SHOWN])
    raise PackError(f"all {len(rejects)} images were rejected, the first of them{shown}")


def _as_upstream(listing: Listing, *, numbered: bool) -> Listing:
    """What upstream's exporter sees: .jpeg files, classes by the folder's own name."""
    kept = [image for image in listing.images if image.name.lower().endswith(upstream.SUFFIX)]
    rejects = [
        Reject(image.name, f"upstream packs {upstream.SUFFIX} files only")
        for image in listing.images
        if not image.name.lower().endswith(upstream.SUFFIX)
    ]
    classes = listing.classes
    if not numbered and classes != tuple(map(str, range(len(classes)))):
        classes, kept = _renumber(classes, kept)
    if len(classes) > upstream.NUM_CLASSES:
        raise PackError(
            f"{len(classes)} classes; upstream knows {upstream.NUM_CLASSES}. Pack without compat "
            "upstream."
        )
    return Listing(classes, tuple(kept), (*listing.rejects, *rejects))


def _renumber(
    classes: Sequence[str], images: Sequence[SourceImage]
) -> tuple[tuple[str, ...], list[SourceImage]]:
    """Labels by the own names of the folders that hold images."""
    folders: dict[str, int] = {}
    for label in sorted({image.label for image in images} - {NO_CLASS}):
        name = classes[label].rpartition("/")[2]
        if name in folders:
            raise PackError(
                f"{classes[folders[name]]} and {classes[label]} are two folders of one name, which "
                "upstream takes for one class. Rename one, or pack without compat upstream."
            )
        folders[name] = label
    names = sorted(folders)
    new = {folders[name]: label for label, name in enumerate(names)} | {NO_CLASS: NO_CLASS}
    return tuple(names), [replace(image, label=new[image.label]) for image in images]
