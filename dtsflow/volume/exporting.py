"""A data set back to image files in class folders."""

import io
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from dtsflow.errors import BlockError, PackError, VolumeError
from dtsflow.memory.limit import cpu_limit
from dtsflow.volume.access import OpenVolumes
from dtsflow.volume.appearing import appearing, refuse_existing_folder
from dtsflow.volume.checksum import combine_blocks, crc32
from dtsflow.volume.exported_names import ExportNames, export_names
from dtsflow.volume.file import VolumeFile
from dtsflow.volume.format import BLOCK_BYTES
from dtsflow.volume.replacing import check_space
from dtsflow.volume.scan import scan
from dtsflow.volume.small_file import payload_crc
from dtsflow.volume.volume_set import VolumeSet

_MOST_WORKERS = 8  # unless asked for: more only wait for one disk, with a block each
_PIXEL_TURN = 512  # images of a pixel set that one thread writes at a time

Done = tuple[int, int]  # of one turn: the images written, the CRC-32 of its block


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: `classes` counts the class folders, empty ones too."""

    images: int
    classes: int
    folder: Path


def export(
    source: Path | str,
    folder: Path,
    *,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Exported:
    """Write every sample of the data set at `source` as a file below `folder`.

    Each class is a folder, and what is stored is written unchanged: from level 0 the
    very files that were packed. Pixels become PNG. `export_names` says what the files
    are called. `folder` appears when all of it is written and all checksums agree; it
    is not forced to the disk. Each of the `workers` threads holds one block; `progress`
    gets the images done and all, about once a block.

    Raises:
        PackError: `folder` exists, the disk is full, or there are no workers.
        SetError: Nothing is at `source`, several data sets are, or one is not whole.
        VolumeError: A volume or its manifest is damaged, or a name leads elsewhere.
    """
    threads = min(_MOST_WORKERS, cpu_limit()) if workers is None else workers
    if threads < 1:
        raise PackError(f"{threads} workers can do nothing: give 1 or more, or leave it out.")
    folder = folder.expanduser()
    refuse_existing_folder(folder)
    volumes = scan(source)
    with OpenVolumes(volumes) as opened:
        names = export_names(volumes, opened.labels)
        with appearing(folder) as unfinished:
            if volumes.layout == "blocks":  # how small a PNG will be, nobody knows
                check_space(unfinished.parent, int(opened.sizes.sum()), what="the export")
            _make_folders(unfinished, names)
            done = 0
            # Closed before the folder is taken away: no thread may still write into it.
            with closing(_turns(opened, names, str(unfinished), threads)) as turns:
                for images in turns:
                    done += images
                    if progress is not None:
                        progress(done, volumes.num_samples)
    assert done == volumes.num_samples
    return Exported(done, len(names.classes), folder)


def _make_folders(root: Path, names: ExportNames) -> None:
    for name in names.folders:
        (root / name).mkdir()


def _turns(
    opened: OpenVolumes, names: ExportNames, root: str, threads: int
) -> Generator[int, None, None]:
    """Write everything, and give the images of each turn as it ends."""
    write = _write_blocks if opened.volumes.layout == "blocks" else _write_pixels
    with ThreadPoolExecutor(threads, "export") as pool:
        try:
            yield from write(opened, names, root, pool)
        finally:
            pool.shutdown(cancel_futures=True)  # what failed need not write the rest first


def _write_blocks(
    opened: OpenVolumes, names: ExportNames, root: str, pool: ThreadPoolExecutor
) -> Iterator[int]:
    volumes = opened.volumes

    def write(number: int) -> Done:
        block = opened.block(number)
        for sample_id, data in enumerate(block.samples, block.first_id):
            _write_new(f"{root}/{names.name(sample_id, data)}", data)
        return len(block.index), crc32(block.memory.data)

    done = pool.map(write, range(volumes.num_blocks))
    for file in volumes.files:
        crcs = []
        for number in range(len(file.counts)):
            images, crc = next(done)
            _check_block(file, number, crc)
            crcs.append(crc)
            yield images
        _check_whole(file, combine_blocks(crcs, BLOCK_BYTES))


def _write_pixels(
    opened: OpenVolumes, names: ExportNames, root: str, pool: ThreadPoolExecutor
) -> Iterator[int]:
    (file,) = opened.volumes.files
    _check_whole(file, payload_crc(file.path, file.size))
    ids = range(opened.volumes.num_samples)

    def write(first: int) -> int:
        turn = ids[first : first + _PIXEL_TURN]
        for sample_id in turn:
            png = _png(opened.volumes, opened[sample_id].data)
            _write_new(f"{root}/{names.name(sample_id, png)}", png)
        return len(turn)

    return iter(pool.map(write, ids[::_PIXEL_TURN]))


def _png(volumes: VolumeSet, data: memoryview) -> memoryview:
    image = volumes.image
    assert image.height is not None
    assert image.width is not None
    pixels = np.frombuffer(data, np.uint8).reshape(image.height, image.width, image.channels)
    stored = io.BytesIO()
    Image.fromarray(pixels[..., 0] if image.channels == 1 else pixels).save(stored, "PNG")
    return stored.getbuffer()


def _write_new(path: str, data: memoryview) -> None:
    """Write a file that was not there; where names only differ in case, it may be."""
    with open(path, "xb", buffering=0) as file:  # noqa: PTH123  # a million Paths are slow to make
        done = 0
        while done < len(data):  # a raw write may take less than it is given
            done += file.write(data[done:])


def _check_block(file: VolumeFile, number: int, crc: int) -> None:
    if file.extension is not None and crc != file.extension.block_crcs[number]:
        raise BlockError(
            f"block {number} of {file.path} is damaged: it has the CRC-32 {crc:#010x}, the "
            f"index says {file.extension.block_crcs[number]:#010x}. Run `dtsflow repair "
            f"{file.path}`, then export again."
        )


def _check_whole(file: VolumeFile, crc: int) -> None:
    if crc != file.header.crc_code:
        raise VolumeError(
            f"{file.path} is damaged: its samples have the CRC-32 {crc:#010x}, its header says "
            f"{file.header.crc_code:#010x}. Run `dtsflow verify {file.path}` to see where."
        )
