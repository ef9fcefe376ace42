"""The images of a pack, gathered from its sources and options.

`vet_all` parts the good images from the bad before anything is packed.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from dtsflow.errors import PackError, SetError
from dtsflow.ranks.collective import Collective
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.format.header import BLOCK_ROOM, SUFFIX
from dtsflow.volume.packing import upstream
from dtsflow.volume.packing.options import Packing, Recipe
from dtsflow.volume.packing.prepare import Candidate, Preparer
from dtsflow.volume.source.base import NO_CLASS, Listing, Reject, SourceImage
from dtsflow.volume.source.detect import list_source
from dtsflow.volume.source.select import choose, merge

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
    """Make the preparer of the stored images.

    Pixels stay unchanged at level 0, and if the sources are volumes that were made by
    exactly the same recipe.
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
    """List as upstream's exporter: .jpeg files, classes by the folder's own name."""
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
    """Renumber labels by the own names of the folders that hold images."""
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


_TURN = 64  # images that a thread looks at in a row

# Of an image that can be packed its stored size, width and height; else the reason.
_Verdict = list[int] | str


def vet_all(
    gathered: Gathered,
    preparer: Preparer,
    pool: ThreadPoolExecutor,
    progress: Progress,
    collective: Collective,
) -> Gathered:
    """Open every image's header and part the good from the bad, each in order.

    Each rank looks at its share, and all get the whole result. `progress` reports the
    share.

    Raises:
        PackError: An image cannot be read, and the image is not the reason.
    """
    images = [one.image for one in gathered.candidates]
    turns = [images[start : start + _TURN] for start in range(0, len(images), _TURN)]
    own = collective.own(turns)
    done, share = 0, sum(map(len, own))
    found: list[list[_Verdict]] = []
    progress("check", done, share)
    for verdicts in pool.map(lambda turn: [_verdict(preparer, one) for one in turn], own):
        found.append(verdicts)
        done += len(verdicts)
        progress("check", done, share)
    every = [verdict for verdicts in collective.exchange(found) for verdict in verdicts]
    candidates, rejects = [], list(gathered.rejects)
    for image, verdict in zip(images, every, strict=True):
        if isinstance(verdict, str):
            rejects.append(Reject(image.name, verdict))
        else:
            candidates.append(Candidate(image, *verdict))
    return replace(gathered, candidates=tuple(candidates), rejects=tuple(rejects))


def _verdict(preparer: Preparer, image: SourceImage) -> _Verdict:
    vetted = preparer.vet(image)
    if isinstance(vetted, Reject):
        return vetted.reason
    return [vetted.size, vetted.width, vetted.height]
