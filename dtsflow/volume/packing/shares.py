"""Which images go into which volume, in which order, and into which blocks."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import PIL
from PIL import features

from dtsflow.errors import PackError
from dtsflow.volume.format import BLOCK_ROOM, SUFFIX, aligned
from dtsflow.volume.mixing import mixing_key
from dtsflow.volume.packing import upstream
from dtsflow.volume.packing.bins import arrange
from dtsflow.volume.packing.cutting import most_images
from dtsflow.volume.packing.options import Packing
from dtsflow.volume.packing.prepare import Candidate
from dtsflow.volume.source.listing import SourceImage

PACKER = 1  # counts up when the same sources and options give other bytes


@dataclass(frozen=True, slots=True)
class Share:
    """One volume's images in their order.

    `counts` are the images of each block where that is known beforehand; None where
    blocks are filled in order as far as the images go.
    """

    volume: Path
    candidates: tuple[Candidate, ...]
    counts: tuple[int, ...] | None


def share_out(
    candidates: Sequence[Candidate], packing: Packing, stem: str, folder: Path
) -> tuple[Share, ...]:
    """Order the images of a listing (sorted by name) and cut them into volumes.

    Images whose size is known are arranged so that blocks are full.

    Raises:
        PackError: There are fewer images than volumes, or upstream cannot arrange them.
    """
    paths = volume_paths(packing, stem, folder)
    if packing.layout.upstream:
        ordered, counts = _upstream(candidates, packing)
        return (Share(paths[0], ordered, counts),)
    volumes = len(paths)
    if len(candidates) < volumes:
        raise PackError(f"{len(candidates)} images do not fill {volumes} volumes; ask for fewer.")
    mixed = sorted(candidates, key=lambda one: mixing_key(one.image.name))
    bounds = [len(mixed) * k // volumes for k in range(volumes + 1)]
    shares = []
    for number in range(volumes):
        part = mixed[bounds[number] : bounds[number + 1]]
        ordered, counts = _arranged(part, packing.encoding.level)
        shares.append(Share(paths[number], ordered, counts))
    return tuple(shares)


def volume_paths(packing: Packing, stem: str, folder: Path) -> tuple[Path, ...]:
    """What the volumes of a pack are called."""
    volumes = packing.layout.volumes
    return tuple(folder / _file_name(stem, number, volumes) for number in range(volumes))


def plan_digest(shares: Sequence[Share], classes: Sequence[str], options: dict[str, Any]) -> str:
    """SHA-256 over all that decides the bytes of the volumes."""
    state = hashlib.sha256(json.dumps([PACKER, options, list(classes)]).encode())
    for share in shares:
        state.update(json.dumps([share.volume.name, share.counts]).encode())
        for one in share.candidates:
            state.update(image_facts(one.image))
    return state.hexdigest()


def image_facts(image: SourceImage) -> bytes:
    """What of an image decides the bytes, and tells whether it changed since."""
    stored = image.stored
    facts = [image.name, image.label, stored.offset, stored.size, stored.mtime_ns]
    return json.dumps(facts).encode()


def recorded_options(packing: Packing) -> dict[str, Any]:
    """What decides the bytes besides the sources, as plain values."""
    recipe = packing.encoding.recipe(upstream=packing.layout.upstream)
    options: dict[str, Any] = {
        "split": packing.split,
        "level": packing.encoding.level,
        "recipe": None,
        "layout": asdict(packing.layout),
    }
    if recipe is not None:
        options["recipe"] = recipe.facts()
    if packing.encoding.restarts:
        options["restarts"] = True
    if recipe is not None or packing.layout.oversize == "reencode":
        # Unchanged bytes depend on no library.
        options["pillow"] = PIL.__version__
        options["libjpeg_turbo"] = features.version_feature("libjpeg_turbo")
    return options


def _upstream(
    candidates: Sequence[Candidate], packing: Packing
) -> tuple[tuple[Candidate, ...], tuple[int, ...] | None]:
    by_name = [candidates[i] for i in upstream.name_order([one.image for one in candidates])]
    if packing.encoding.level > 0:
        return tuple(by_name[i] for i in upstream.shuffled(len(by_name))), None
    sizes = [one.size for one in by_name]
    minimum = packing.layout.min_blocks or upstream.minimum_blocks(sizes)
    blocks = upstream.arrange_level0(sizes, minimum)
    return tuple(by_name[i] for members in blocks for i in members), tuple(map(len, blocks))


def _arranged(
    mixed: Sequence[Candidate], level: int
) -> tuple[tuple[Candidate, ...], tuple[int, ...] | None]:
    if not all(one.size for one in mixed):
        return tuple(mixed), None
    sizes = [aligned(one.size) for one in mixed]
    blocks = arrange(sizes, BLOCK_ROOM[level], most_images(level, upstream=False))
    # Places in the mixed order, so that a block is in that order too.
    return tuple(mixed[i] for members in blocks for i in sorted(members)), tuple(map(len, blocks))


def _file_name(stem: str, number: int, volumes: int) -> str:
    part = f"-{number + 1:05d}-of-{volumes:05d}" if volumes > 1 else ""
    return f"{stem}{part}{SUFFIX}"
