"""Writing the volumes of a pack so that a crash leaves whole files or none.

A `Job` is a pack that is worked out, so that only the writing is left.
"""

import logging
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dtsflow.errors import CommonError, PackError
from dtsflow.memory.align import aligned_bytes
from dtsflow.ranks.collective import Collective
from dtsflow.volume.format.extension import About, fits
from dtsflow.volume.format.header import BLOCK_BYTES, Facts, Header, block_header
from dtsflow.volume.format.io import check_space, combine_blocks
from dtsflow.volume.format.manifest import manifest_digest, manifest_path, rejects_path
from dtsflow.volume.packing import upstream
from dtsflow.volume.packing.arrange import (
    PACKER,
    Cut,
    Share,
    cut_as_planned,
    cut_next_fit,
    most_images,
    plan_digest,
    recorded_options,
)
from dtsflow.volume.packing.estimate import expect, known_bytes
from dtsflow.volume.packing.gather import Gathered, Progress, refuse_none
from dtsflow.volume.packing.options import Packing
from dtsflow.volume.packing.prepare import Preparer, prepare_in_order
from dtsflow.volume.packing.staging import Unfinished, co_writing
from dtsflow.volume.packing.volume_part import VolumePart, journal_path, read_marks


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The sources, options and target of one pack; `stem` begins all file names."""

    packing: Packing
    gathered: Gathered
    shares: tuple[Share, ...]
    preparer: Preparer
    folder: Path
    stem: str

    @property
    def hidden(self) -> Path:
        """Return the folder where everything lies until all of it is written."""
        return self.folder / f".{self.stem}.part"


log = logging.getLogger(__name__)

_AMPLE = 4  # times the bytes of the sources

_MOST_BLOCKS = 1 << 20  # of one volume, 16 TiB: the index keeps room for so many


def write_volumes(
    job: Job, pool: ThreadPoolExecutor, report: Progress, collective: Collective
) -> None:
    """Write all volumes of a job, with their manifests and lists of rejects.

    Each rank writes its share of the volumes; rank 0 gives all of them their names.

    Raises:
        PackError: A final name is taken, the disk is full or fails, a source changed,
            no image could be packed, or the names of the classes are too long.
        CommonError: One of these, on some of several ranks before or after the filling.
    """
    collective.together(partial(_check_names, job))
    plan = plan_digest(job.shares, job.gathered.classes, recorded_options(job.packing))
    collective.agree(lambda: {"plan": plan})
    if collective.is_first and collective.size > len(job.shares):
        log.warning(
            "%d of %d ranks have no volume to write: ask for as many volumes as ranks, and none "
            "is idle",
            collective.size - len(job.shares),
            collective.size,
        )
    with ExitStack() as held:
        unfinished = collective.first(partial(_begin, job, plan, pool, held))
        is_finished = unfinished is not None and unfinished.is_finished
        filled: list[list[int]] = []
        if not collective.tell("finished" if is_finished else ""):
            filled = _fill_all(job, unfinished, pool, report, collective)
        collective.first(partial(_install, job, unfinished, filled))


def _begin(job: Job, plan: str, pool: ThreadPoolExecutor, held: ExitStack) -> Unfinished:
    """Begin the hidden folder, on rank 0; check that the disk has room for the rest."""
    finals = tuple(
        path
        for share in job.shares
        for path in (manifest_path(share.volume), rejects_path(share.volume), share.volume)
    )
    with _explaining(job):
        unfinished = held.enter_context(
            Unfinished(job.hidden, finals, plan=plan, resume=job.packing.resume)
        )
        if not unfinished.is_finished:
            try:
                _check_space(job, unfinished, pool)
            except BaseException:
                _leave(job, unfinished, can_go_on=True)
                raise
    return unfinished


def _install(job: Job, unfinished: Unfinished | None, filled: Sequence[list[int]]) -> None:
    assert unfinished is not None  # it is on rank 0, which does this
    with _explaining(job):
        # What rank 0 does not see yet would be removed with the folder.
        for path in _written(job, filled):
            if not path.exists():
                raise PackError(
                    f"{path} was written by another rank, and rank 0 does not see it. Wait until "
                    "the file system has caught up, then go on with resume."
                )
        unfinished.install()


def _written(job: Job, filled: Sequence[list[int]]) -> Iterator[Path]:
    """Yield the files in the hidden folder that wait for their names."""
    for number, (_, _, rejects) in enumerate(filled):
        volume = job.hidden / job.shares[number].volume.name
        yield from (volume, manifest_path(volume))
        if rejects:
            yield rejects_path(volume)


@contextmanager
def _explaining(job: Job) -> Iterator[None]:
    """Tell what to do where the file system fails."""
    try:
        yield
    except OSError as error:
        raise PackError(
            f"{job.folder / job.stem} could not be written: {error}. Nothing has its final name "
            "yet: mend the cause, then go on with resume."
        ) from error


def _check_names(job: Job) -> None:
    """Refuse names that do not fit the index, before anything is written."""
    names = About(
        class_names=job.gathered.classes, header=b"", manifest_sha256="", packer="", options={}
    )
    if not job.packing.layout.upstream and not fits(names, _MOST_BLOCKS, 0):
        raise PackError(
            f"the names of the {len(job.gathered.classes)} classes take {len(names.to_json())} "
            "bytes in the index, about 8 MiB have room. Give the classes shorter names."
        )


def _fill_all(
    job: Job,
    unfinished: Unfinished | None,
    pool: ThreadPoolExecutor,
    report: Progress,
    collective: Collective,
) -> list[list[int]]:
    """Write all that is missing into the hidden folder, and say what is there then.

    `unfinished` is that folder, on rank 0.
    """
    memory = aligned_bytes(BLOCK_BYTES)
    level = job.packing.encoding.level
    parts = [VolumePart(job.hidden / share.volume.name, level, memory) for share in job.shares]
    is_filling = False
    try:
        with co_writing(job.hidden, collective):
            is_filling = True
            _fill_own(job, parts, pool, report, collective)
            own = collective.own(range(len(parts)))
            filled = collective.exchange([_filled(parts[number]) for number in own])
            collective.together(partial(_finish, job, parts, own, filled))
    except BaseException as error:
        # Else the other ranks may still write there.
        have_all_ended = collective.is_alone or isinstance(error, CommonError)
        if unfinished is not None and have_all_ended:
            _leave(job, unfinished, can_go_on=not is_filling or _may_pass(error))
        raise
    return filled


def _fill_own(
    job: Job,
    parts: Sequence[VolumePart],
    pool: ThreadPoolExecutor,
    report: Progress,
    collective: Collective,
) -> None:
    own = collective.own(list(zip(job.shares, parts, strict=True)))
    done, images = 0, sum(len(share.candidates) for share, _ in own)
    report("pack", done, images)
    with _explaining(job):
        for share, part in own:
            with part:
                for position in _fill(job, share, part, pool):
                    report("pack", done + position, images)
            done += len(share.candidates)


def _filled(part: VolumePart) -> list[int]:
    """Return what others have to know of a part: its blocks, samples and rejects."""
    return [len(part.counts), part.last.samples, part.rejects]


def _fill(job: Job, share: Share, part: VolumePart, pool: ThreadPoolExecutor) -> Iterator[int]:
    """Write the blocks that are missing; yield the position in the share after each."""
    start = part.last.position
    if not part.counts and share is job.shares[0]:
        part.append(Cut((), job.gathered.rejects, 0))  # known before an image was read
    stream = prepare_in_order(job.preparer, share.candidates[start:], pool)
    layout, level = job.packing.layout, job.packing.encoding.level
    if share.counts is not None:
        cuts = cut_as_planned(stream, share.counts[len(part.counts) :], start)
    else:
        cuts = cut_next_fit(stream, level, most_images(level, upstream=layout.upstream), start)
    for cut in cuts:
        part.append(cut)
        yield cut.position


def _check_space(job: Job, unfinished: Unfinished, pool: ThreadPoolExecutor) -> None:
    """Refuse to begin what does not fit the disk; what is there already counts."""
    wanted = known_bytes(job.shares)
    sources = sum(one.image.stored.size for one in job.gathered.candidates)
    if wanted is None and shutil.disk_usage(job.folder).free > _AMPLE * sources:
        return  # no encoding makes so much more of them
    if wanted is None:
        wanted = expect(job.shares, job.preparer, pool, job.packing.encoding.level).bytes
    there = sum(entry.stat().st_size for entry in unfinished.folder.iterdir())
    check_space(job.folder, max(0, wanted - there), what="the pack")


def _finish(
    job: Job, parts: Sequence[VolumePart], own: Sequence[int], filled: Sequence[list[int]]
) -> None:
    """Write the headers of this rank's `own` parts.

    Headers hold the number of blocks of all volumes together, so all volumes are
    `filled` before.
    """
    blocks, samples, rejects = (sum(column) for column in zip(*filled, strict=True))
    with _explaining(job):
        if not samples:
            refuse_none([reject for part in parts for reject in part.read_rejects()])
        for part, (in_part, *_) in zip(parts, filled, strict=True):
            if not in_part:
                raise PackError(
                    f"of the images for {part.volume.name} none could be packed. Ask for fewer "
                    "volumes."
                )
        for number in own:
            part = parts[number]
            header = _header(job, part, number, blocks)
            part.finish(header, None if job.packing.layout.upstream else _about(job, part, header))
    if rejects and 0 in own:
        log.warning("%s: %d of %d images rejected", job.stem, rejects, _found(job))


def _found(job: Job) -> int:
    return len(job.gathered.candidates) + len(job.gathered.rejects)


def _header(job: Job, part: VolumePart, number: int, total_blocks: int) -> Header:
    level, is_training = job.packing.encoding.level, job.packing.split == "train"
    is_upstream = job.packing.layout.upstream
    facts = Facts(
        level=level,
        is_training=is_training,
        num_blocks=len(part.counts),
        num_classes=upstream.NUM_CLASSES if is_upstream else len(job.gathered.classes),
        max_pic_area=(
            upstream.MAX_PIC_AREA[is_training] if is_upstream and level == 0 else part.last.max_area
        ),
        source_bytes=part.last.source_bytes,
        volume_id=number,
        num_volumes=len(job.shares),
        total_blocks=total_blocks,
        # Upstream never counts the last block above level 0.
        max_pic_per_block=max(part.counts[:-1], default=0) if is_upstream and level else None,
    )
    return block_header(facts, part.counts, combine_blocks(part.crcs, BLOCK_BYTES))


def _about(job: Job, part: VolumePart, header: Header) -> About:
    sums = part.last.sums
    return About(
        class_names=job.gathered.classes,
        header=header.to_bytes(),
        manifest_sha256=manifest_digest(manifest_path(part.volume)),
        packer=f"dtsflow {PACKER}",
        options=recorded_options(job.packing),
        mean=sums.mean,
        std=sums.std,
        statistics_images=sums.images,
    )


def _may_pass(error: BaseException) -> bool:
    """Tell whether the cause that stopped the filling may be gone at a resume.

    A source that changed has changed for every resume too. This rank does not know what
    stopped the others.
    """
    own = error.__cause__ if isinstance(error, CommonError) else error
    return not isinstance(own, PackError) or isinstance(own.__cause__, OSError)


def _leave(job: Job, unfinished: Unfinished, *, can_go_on: bool) -> None:
    """Keep what a resume can go on with, and remove what it cannot."""
    # By the journals: this run may not have looked at what an earlier one wrote.
    volumes = [unfinished.folder / share.volume.name for share in job.shares]
    blocks = sum(len(read_marks(journal_path(volume))) for volume in volumes)
    if blocks and can_go_on:
        log.warning(
            "%s keeps the %d blocks written so far: go on with --resume, or remove it",
            unfinished.folder,
            blocks,
        )
    else:
        unfinished.remove()
