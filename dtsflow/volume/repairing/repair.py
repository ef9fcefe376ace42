"""`dtsflow repair`: mends a damaged volume in place."""

from dataclasses import dataclass, replace
from pathlib import Path

from dtsflow.errors import VolumeError
from dtsflow.memory.limit import cpu_limit
from dtsflow.volume.format.header import BLOCK_BYTES
from dtsflow.volume.repairing.blocks import (
    GoodCopy,
    Sources,
    mend_blocks,
    open_copy,
    recorded_remake,
    target,
)
from dtsflow.volume.repairing.header import (
    mend_header,
    mend_index,
    mend_pixels,
    mend_zeros,
    proven_header,
)
from dtsflow.volume.repairing.patch import Patch
from dtsflow.volume.verifying.block_volume import BlockVolume, read_block_volume, read_header_area
from dtsflow.volume.verifying.blocks import Means
from dtsflow.volume.verifying.pixel_file import read_pixel_file
from dtsflow.volume.verifying.report import Report
from dtsflow.volume.verifying.verify import Progress, recognise, verify


@dataclass(frozen=True, slots=True)
class Repaired:
    """The result of a repair: what was mended, what was not and why, the file now."""

    path: Path
    done: tuple[str, ...]
    left: tuple[str, ...]
    report: Report


def repair(
    path: Path,
    *,
    good: Path | None = None,
    sources: Path | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Repaired:
    """Mend a volume in place, with bytes that are proven to be the right ones.

    The index proves the header and each block, a header's checksum all blocks together.
    `good` is another file of the same volume, `sources` the folder that was packed:
    images that were encoded are encoded again, which needs the same Pillow. A dry run
    changes nothing and says what would be done. All else in the file stays as it is.

    Raises:
        VolumeError: The file is not a volume, cannot be changed, or `good` cannot be
            read.
    """
    _check_given(path, good, sources)
    kind = recognise(path, path.stat().st_size)
    if kind is None:
        raise VolumeError(
            f"{path} is no volume, or nothing in it tells what it holds. Copy or export it again."
        )
    with Patch(path, dry_run=dry_run) as patch:
        if kind.in_blocks:
            _mend(path, patch, good, sources)
        else:
            mend_pixels(read_pixel_file(path, kind, path.stat().st_size), patch, good)
    report = verify([path], progress=progress)
    return Repaired(path, tuple(patch.done), tuple(patch.left), report)


def _mend(path: Path, patch: Patch, good: Path | None, folder: Path | None) -> None:
    workers = cpu_limit()
    copy = None if good is None else open_copy(good, workers)
    area = read_header_area(path)
    proven = proven_header(area, copy)
    if proven is not None and proven != area.raw:
        patch.write(0, proven, "header: the one that the index has the CRC-32 of")
        area = replace(area, raw=proven)
    mend_zeros(area, patch)
    volume = read_block_volume(area, Means(None, workers, _ignore))
    sources = None
    if folder is not None:
        level = volume.shape.level
        sources = Sources(folder, path, level, recorded_remake(area.extension, level))
    crcs = _mend_all_blocks(volume, patch, copy, sources)
    header = area.raw
    if area.extension is None:
        header = mend_header(volume, crcs, patch, copy)
    elif proven is None:
        patch.left.append("header: it has another CRC-32 than the index says, and no copy is left")
    mend_index(area, header, crcs, patch, copy)


def _mend_all_blocks(
    volume: BlockVolume, patch: Patch, copy: GoodCopy | None, sources: Sources | None
) -> tuple[int, ...]:
    right = target(volume, copy)
    if right is not None:
        size = (1 + len(right.crcs)) * BLOCK_BYTES
        if volume.area.size > size:
            patch.cut(size, f"file: cut off what was behind its {len(right.crcs)} blocks")
        return mend_blocks(volume, right, patch, copy, sources)
    if volume.crc != volume.header_crc_code:
        patch.left.append(
            "blocks: without an index nothing tells which is damaged: give a good copy with --from"
        )
    return tuple(one.crc or 0 for one in volume.facts)


def _check_given(path: Path, good: Path | None, sources: Path | None) -> None:
    if not path.is_file():
        raise VolumeError(f"{path} is no file. Name the volume to mend.")
    if good is not None and not good.is_file():
        raise VolumeError(f"{good} is no file. Name a good copy of {path}.")
    if good is not None and good.samefile(path):
        raise VolumeError(f"{good} is the damaged volume itself. Name another copy of it.")
    if sources is not None and not sources.is_dir():
        raise VolumeError(f"{sources} is no folder. Name the folder that was packed.")


def _ignore() -> None:
    """Report nothing."""
