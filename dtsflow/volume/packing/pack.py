"""Packing images into volumes, safely: nothing half-written, nothing lost.

`pack` makes volumes and `estimate` says what it would make. `pack_pixels` makes one
volume from the pixels of MNIST or CIFAR, as upstream writes it.
"""

import json
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from dtsflow.errors import PackError
from dtsflow.memory.limit import cpu_limit
from dtsflow.ranks.collective import Collective
from dtsflow.ranks.group import Group
from dtsflow.volume.format.file import read_header
from dtsflow.volume.format.header import SMALL_AREA_BYTES, SUFFIX
from dtsflow.volume.format.io import check_space, crc32, refuse_existing, replacing
from dtsflow.volume.format.pixel_file import most_samples, small_header
from dtsflow.volume.packing.arrange import Share, share_out, volume_paths
from dtsflow.volume.packing.encode import check_restarts
from dtsflow.volume.packing.estimate import Expected, expect, listing_facts, option_facts
from dtsflow.volume.packing.gather import (
    Gathered,
    Progress,
    gather,
    make_preparer,
    refuse_none,
    vet_all,
)
from dtsflow.volume.packing.options import Encoding, Packing
from dtsflow.volume.packing.write import Job, write_volumes
from dtsflow.volume.source.base import Reject
from dtsflow.volume.source.detect import holds_volumes
from dtsflow.volume.source.pixel_files import SPLITS, PixelSet, find_pixels
from dtsflow.volume.source.select import Choice


@dataclass(frozen=True, slots=True)
class Packed:
    """The result of a pack. It counts all images and rejects that were found."""

    volumes: tuple[Path, ...]
    images: int
    classes: int
    blocks: int
    bytes: int
    rejects: int
    left_out: int = 0

    @property
    def path(self) -> Path:
        """Return the volume, or the first of several."""
        return self.volumes[0]

    def to_text(self) -> str:
        """Return the result as one line."""
        return json.dumps({**asdict(self), "volumes": list(map(str, self.volumes))})

    @classmethod
    def from_text(cls, text: str) -> "Packed":
        """Read what `to_text` wrote."""
        told = json.loads(text)
        return cls(**{**told, "volumes": tuple(map(Path, told["volumes"]))})


def pack_pixels(pixels: PixelSet, folder: Path, *, split: str, level: int = 0) -> Path:
    """Write a set into `folder` as `mnist_test.dts`, `cifar10_train.dts` and so on.

    The bytes are upstream's for the same samples; `level` is only recorded. The file
    appears under its name only when all of it is on the disk. `folder` is made if it is
    missing.

    Raises:
        PackError: `split` is neither train nor test, the volume exists already, there
            are more samples than it can hold, the disk is full, or writing failed.
    """
    if split not in SPLITS:
        raise PackError(
            f"{pixels.kind.value} has {' and '.join(SPLITS)} and no {split}. Choose one of the two."
        )
    path = folder / f"{pixels.kind.value.lower()}_{split}{SUFFIX}"
    refuse_existing(path)
    samples, most = len(pixels.labels), most_samples(pixels.kind)
    if samples > most:
        raise PackError(
            f"{samples} samples do not fit {path}: a volume of this kind holds {most}. Pack "
            "fewer of them."
        )
    labels, images = np.ascontiguousarray(pixels.labels), np.ascontiguousarray(pixels.pixels)
    crc = crc32(images.data, crc32(labels.data))
    header = small_header(pixels.kind, samples, is_training=split == "train", level=level, crc=crc)
    _make(folder)
    check_space(folder, SMALL_AREA_BYTES + labels.nbytes + images.nbytes)
    with replacing(path) as file:
        file.write(header.to_bytes().ljust(SMALL_AREA_BYTES, b"\0"))
        file.write(labels.data)
        file.write(images.data)
    return path


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PackError(f"{folder} cannot be made: {error.strerror}. Choose another.") from error


Sources = Path | str | Sequence[Path | str]


@dataclass(frozen=True, slots=True)
class Estimate:
    """The expected result of `pack` with the same arguments."""

    volumes: tuple[Path, ...]
    images: int
    classes: int
    rejects: tuple[Reject, ...]
    left_out: int
    expected: Expected


def pack(
    sources: Sources,
    folder: Path | str,
    packing: Packing,
    progress: Progress | None = None,
    group: Group | None = None,
) -> Packed:
    """Pack images into `NAME_SPLIT_lvLEVEL.dts` in `folder`.

    `sources` are one or several of: a folder of class folders, a flat folder with
    labels, a tar of either, WebDataset shards, Parquet files, DTS volumes; or one set
    of MNIST or CIFAR files. The same sources and options give the same bytes on every
    machine, at levels above 0 with the same Pillow. What cannot be packed is listed in
    `VOLUME.rejects.jsonl`, everything else in `VOLUME.manifest.jsonl`. `progress` gets
    the current step (check, pack), the number of images done, and of all images.

    All ranks of `group` call it and share out the volumes; the bytes are the same
    again. `progress` is then called on rank 0, for its share. An error on one rank has
    to end the others, see `ending_all`.

    Raises:
        PackError: The options make no sense, there is no usable image, a volume exists
            already, `folder` lies in a source, the disk is full, or a source changed
            meanwhile.
        VolumeError: A source is a damaged volume.
        CommonError: One of these, on some of several ranks; or they are not about to
            pack the same.
    """
    collective, places, target = Collective(group), _places(sources), _place(folder)
    collective.together(partial(_check, packing))
    collective.agree(partial(option_facts, packing))
    pixels = collective.first(partial(_pack_pixels, places, target, packing))
    if told := collective.tell("" if pixels is None else pixels.to_text()):
        return Packed.from_text(told)
    report = _of_rank(progress or _silent, collective)
    with _pool(packing, collective) as pool:
        job = _work_out(places, target, packing, pool, report, collective)
        write_volumes(job, pool, report, collective)
    packed = collective.first(partial(_packed, job))
    return Packed.from_text(collective.tell("" if packed is None else packed.to_text()))


def meeting_place(sources: Sources, folder: Path | str) -> Path:
    """Return a path in `folder`; ranks about to pack into it may meet beside it.

    It is the same for all of them, whatever else they do.

    Raises:
        PackError: `folder` lies in a source, where nothing may be left.
    """
    target = _place(folder)
    _refuse_inside(_places(sources), target)
    return target / "pack"


def estimate(
    sources: Sources, folder: Path | str, packing: Packing, progress: Progress | None = None
) -> Estimate:
    """Say what `pack` would write, without writing anything.

    Every image's header is looked at, and a few images are encoded.

    Raises:
        PackError, VolumeError: As `pack`.
    """
    collective, places, report = Collective(), _places(sources), progress or _silent
    _check(packing)
    if _pixels(places, packing) is not None:
        raise PackError(f"{places[0]} holds MNIST or CIFAR files: they are packed in a moment.")
    with _pool(packing, collective) as pool:
        job = _work_out(places, _place(folder), packing, pool, report, collective)
        gathered = job.gathered
        if not job.preparer.keeps_bytes:
            gathered = vet_all(gathered, job.preparer, pool, report, collective)
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
    collective: Collective,
) -> Job:
    if packing.source.spool is not None:  # the others then find what it unpacks
        collective.first(partial(gather, places, packing))
    gathered = collective.together(partial(_gathered, places, folder, packing))
    collective.agree(partial(listing_facts, gathered))
    preparer = collective.together(
        partial(make_preparer, places, packing, len(gathered.candidates))
    )
    if preparer.keeps_bytes:
        gathered = vet_all(gathered, preparer, pool, report, collective)
    stem = packing.stem(places[0])
    return Job(
        packing=packing,
        gathered=gathered,
        shares=collective.together(partial(_shares, gathered, folder, packing, stem)),
        preparer=preparer,
        folder=folder,
        stem=stem,
    )


def _gathered(places: Sequence[Path], folder: Path, packing: Packing) -> Gathered:
    stem = packing.stem(places[0])
    gathered = gather(places, packing)
    _refuse_inside(places, folder)
    if not packing.resume:  # before what may take an hour
        for volume in volume_paths(packing, stem, folder):
            refuse_existing(volume)
    return gathered


def _shares(gathered: Gathered, folder: Path, packing: Packing, stem: str) -> tuple[Share, ...]:
    if not gathered.candidates:
        refuse_none(gathered.rejects)
    return share_out(gathered.candidates, packing, stem, folder)


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
    if packing.workers is not None and packing.workers < 1:
        raise PackError(f"workers = {packing.workers}: at least one thread has to work.")


def _pack_pixels(places: Sequence[Path], folder: Path, packing: Packing) -> Packed | None:
    """Pack the paths if they are a set of MNIST or CIFAR files."""
    pixels = _pixels(places, packing)
    if pixels is None:
        return None
    path = pack_pixels(pixels, folder, split=packing.split, level=packing.encoding.level)
    images, classes = len(pixels.labels), int(pixels.labels.max()) + 1
    return Packed((path,), images, classes, 1, path.stat().st_size, 0)


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
def _pool(packing: Packing, collective: Collective) -> Iterator[ThreadPoolExecutor]:
    workers = packing.workers or collective.cpu_share or cpu_limit()
    # For all threads together: a warning cannot be silenced in one alone. Large images
    # are wanted, and of damaged metadata only what is packed counts.
    with warnings.catch_warnings(), ThreadPoolExecutor(workers) as pool:
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        warnings.filterwarnings("ignore", module="PIL")
        yield pool


def _of_rank(report: Progress, collective: Collective) -> Progress:
    """Make rank 0 name itself in its progress, and all other ranks report nothing."""
    if collective.is_alone:
        return report
    if not collective.is_first:
        return _silent
    return lambda what, done, images: report(f"{what} (rank 0 of {collective.size})", done, images)


def _silent(what: str, done: int, images: int) -> None:
    """Report nothing."""
