"""From images to volumes, safely: nothing half-written, nothing lost."""

import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from dtsflow.errors import PackError
from dtsflow.memory.limit import cpu_limit
from dtsflow.volume.file import read_header
from dtsflow.volume.packing.estimate import Expected, expect
from dtsflow.volume.packing.gather import (
    Progress,
    gather,
    make_preparer,
    refuse_none,
    vet_all,
)
from dtsflow.volume.packing.job import Job
from dtsflow.volume.packing.options import Packing
from dtsflow.volume.packing.pixels import pack_pixels
from dtsflow.volume.packing.recipe import Encoding
from dtsflow.volume.packing.restarts import check_restarts
from dtsflow.volume.packing.shares import share_out, volume_paths
from dtsflow.volume.packing.writing import write_volumes
from dtsflow.volume.replacing import refuse_existing
from dtsflow.volume.source.choice import Choice
from dtsflow.volume.source.listing import Reject
from dtsflow.volume.source.open_source import holds_volumes
from dtsflow.volume.source.pixels import PixelSet, find_pixels

Sources = Path | str | Sequence[Path | str]


@dataclass(frozen=True, slots=True)
class Packed:
    """What was written. Images, rejects and `left_out` are all that was found."""

    volumes: tuple[Path, ...]
    images: int
    classes: int
    blocks: int
    bytes: int
    rejects: int
    left_out: int = 0

    @property
    def path(self) -> Path:
        """The volume, or the first of several."""
        return self.volumes[0]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What `pack` would do with the same arguments."""

    volumes: tuple[Path, ...]
    images: int
    classes: int
    rejects: tuple[Reject, ...]
    left_out: int
    expected: Expected


def pack(
    sources: Sources, folder: Path | str, packing: Packing, progress: Progress | None = None
) -> Packed:
    """Pack images into `NAME_SPLIT_lvLEVEL.dts` in `folder`.

    `sources` are one or several of: a folder of class folders, a flat folder with
    labels, a tar of either, WebDataset shards, Parquet files, DTS volumes; or one set
    of MNIST or CIFAR files. The same sources and options give the same bytes on every
    machine, at levels above 0 with the same Pillow. What cannot be packed is listed in
    `VOLUME.rejects.jsonl`, everything else in `VOLUME.manifest.jsonl`. `progress` gets
    what is being done (check, pack), the images done, and all.

    Raises:
        PackError: The options make no sense, there is no usable image, a volume exists
            already, `folder` lies in a source, the disk is full, or a source changed
            meanwhile.
        VolumeError: A source is a damaged volume.
    """
    places, report = _places(sources), progress or _silent
    _check(packing)
    pixels = _pixels(places, packing)
    if pixels is not None:
        path = pack_pixels(
            pixels, _place(folder), split=packing.split, level=packing.encoding.level
        )
        images, classes = len(pixels.labels), int(pixels.labels.max()) + 1
        return Packed((path,), images, classes, 1, path.stat().st_size, 0)
    with _pool(packing) as pool:
        job = _work_out(places, _place(folder), packing, pool, report)
        write_volumes(job, pool, report)
    return _packed(job)


def estimate(
    sources: Sources, folder: Path | str, packing: Packing, progress: Progress | None = None
) -> Estimate:
    """Say what `pack` would write, without writing anything.

    Every image's header is looked at, and a few images are encoded.

    Raises:
        PackError, VolumeError: As `pack`.
    """
    places, report = _places(sources), progress or _silent
    _check(packing)
    if _pixels(places, packing) is not None:
        raise PackError(f"{places[0]} holds MNIST or CIFAR files: they are packed in a moment.")
    with _pool(packing) as pool:
        job = _work_out(places, _place(folder), packing, pool, report)
        gathered = job.gathered
        if not job.preparer.keeps_bytes:
            gathered = vet_all(gathered, job.preparer, pool, report)
        expected = expect(job.shares, job.preparer, pool, packing.encoding.level)
    return Estimate(
        tuple(share.volume for share in job.shares),
        len(gathered.candidates),
        len(gathered.classes),
        gathered.rejects,
        gathered.left_out,
        expected,
    )


def _work_out(
    places: Sequence[Path],
    folder: Path,
    packing: Packing,
    pool: ThreadPoolExecutor,
    report: Progress,
) -> Job:
    stem = packing.stem(places[0])
    gathered = gather(places, packing)
    _refuse_inside(places, folder)
    if not packing.resume:  # before what may take an hour
        for volume in volume_paths(packing, stem, folder):
            refuse_existing(volume)
    preparer = make_preparer(places, packing, len(gathered.candidates))
    if preparer.keeps_bytes:
        gathered = vet_all(gathered, preparer, pool, report)
    if not gathered.candidates:
        refuse_none(gathered.rejects)
    return Job(
        packing=packing,
        gathered=gathered,
        shares=share_out(gathered.candidates, packing, stem, folder),
        preparer=preparer,
        folder=folder,
        stem=stem,
    )


def _packed(job: Job) -> Packed:
    volumes = tuple(share.volume for share in job.shares)
    headers = [read_header(volume) for volume in volumes]
    images = sum(header.num_samples for header in headers)
    return Packed(
        volumes,
        images,
        len(job.gathered.classes),
        sum(header.num_blocks for header in headers),
        sum(header.total_bytes for header in headers),
        len(job.gathered.candidates) + len(job.gathered.rejects) - images,
        job.gathered.left_out,
    )


def _places(sources: Sources) -> list[Path]:
    given = [sources] if isinstance(sources, Path | str) else list(sources)
    if not given:
        raise PackError("there is no source to pack. Name a folder, a tar or a volume.")
    return [_place(place) for place in given]


def _place(given: Path | str) -> Path:
    return Path(given).expanduser()


def _refuse_inside(places: Sequence[Path], folder: Path) -> None:
    """Raise PackError if the volumes would lie among the images they are made from."""
    for place in places:
        is_inside = folder.resolve().is_relative_to(place.resolve())
        if is_inside and place.is_dir() and not holds_volumes(place):
            raise PackError(
                f"{folder} lies in the source {place}, where it counts as a class. Choose a folder "
                "beside it: nothing is written into a source."
            )


def _check(packing: Packing) -> None:
    packing.layout.check()
    packing.encoding.recipe(upstream=packing.layout.upstream)
    if packing.encoding.restarts:
        check_restarts()


def _pixels(places: Sequence[Path], packing: Packing) -> PixelSet | None:
    if packing.source.kind not in {"auto", "images"}:
        return None
    found = [find_pixels(place, packing.split) for place in places]
    if all(pixels is None for pixels in found):
        return None
    if len(places) > 1:
        raise PackError("MNIST and CIFAR sets are packed one at a time: name one source.")
    changed = packing.encoding != Encoding(level=packing.encoding.level)
    if packing.choice != Choice() or packing.layout.volumes > 1 or packing.name or changed:
        raise PackError(
            f"{places[0]} holds MNIST or CIFAR files, which are packed whole and unchanged, into "
            "one volume with a name of its own: leave out labels, classes, subsets, volumes, name "
            "and encoding."
        )
    return found[0]


@contextmanager
def _pool(packing: Packing) -> Iterator[ThreadPoolExecutor]:
    workers = packing.workers if packing.workers is not None else cpu_limit()
    if workers < 1:
        raise PackError(f"workers = {workers}: at least one thread has to work.")
    # For all threads together: a warning cannot be silenced in one alone. Large images
    # are wanted, and of damaged metadata only what is packed counts.
    with warnings.catch_warnings(), ThreadPoolExecutor(workers) as pool:
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        warnings.filterwarnings("ignore", module="PIL")
        yield pool


def _silent(what: str, done: int, images: int) -> None:
    """Report nothing."""
