"""Export of a data set to image files in class folders, or to WebDataset shards."""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from dtsflow.errors import PackError
from dtsflow.memory.limit import cpu_limit
from dtsflow.volume.datasets.access import OpenVolumes
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.exporting.samples import (
    ExportNames,
    check_block,
    check_whole,
    export_names,
    png,
)
from dtsflow.volume.exporting.shards import plan_shards, write_shards
from dtsflow.volume.format.header import BLOCK_BYTES
from dtsflow.volume.format.io import (
    appearing,
    check_space,
    combine_blocks,
    crc32,
    refuse_existing_folder,
)
from dtsflow.volume.format.pixel_file import payload_crc

_MOST_WORKERS = 8  # unless asked for: more only wait for one disk, with a block each
_PIXEL_TURN = 512  # images of a pixel set that one thread writes at a time

SHARD_SAMPLES = 10_000  # 150 MB to 1 GB of ordinary photographs

Target = Literal["folder", "webdataset"]
Writing = Callable[[ThreadPoolExecutor], Iterator[int]]  # yields the images of each part
Done = tuple[int, int]  # of one part: the images written, the CRC-32 of its block


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export; `classes` counts those without an image too.

    `shards` is 0 after an export to class folders.
    """

    images: int
    classes: int
    folder: Path
    shards: int = 0


def export(
    source: Path | str,
    folder: Path,
    *,
    to: Target = "folder",
    shard_samples: int = SHARD_SAMPLES,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Exported:
    """Write every sample of the data set at `source` as a file below `folder`.

    Each class is a folder. The stored bytes are written unchanged: at level 0 they are
    exactly the files that were packed. Pixels become PNG. `export_names` decides the
    names of the files. With `webdataset`, `folder` gets shards of `shard_samples`
    samples each instead, as `plan_shards` describes. `folder` appears when all of it is
    written and all checksums agree; it is not forced to the disk. Each of the `workers`
    threads holds one block; `progress` gets the number of images done and of all
    images, about once a block or a shard.

    Raises:
        PackError: `folder` exists, the disk is full, there are no workers or samples of
            a shard, or a class name cannot be in a list of names.
        SetError: Nothing is at `source`, several data sets are, or one is not whole.
        VolumeError: A volume or its manifest is damaged, or a name leads elsewhere.
    """
    threads = min(_MOST_WORKERS, cpu_limit()) if workers is None else workers
    if threads < 1 or shard_samples < 1:
        what = f"{threads} workers" if threads < 1 else f"shards of {shard_samples} samples"
        raise PackError(f"{what} can do nothing: give 1 or more, or leave it out.")
    folder = folder.expanduser()
    refuse_existing_folder(folder)
    volumes = scan(source)
    with OpenVolumes(volumes) as opened:
        names = export_names(volumes, opened.labels)
        with appearing(folder) as unfinished:
            if volumes.layout == "blocks":  # how small a PNG will be, nobody knows
                check_space(unfinished.parent, int(opened.sizes.sum()), what="the export")
            writing = _writing(opened, names, unfinished, None if to == "folder" else shard_samples)
            done = 0
            # Closed before the folder is taken away: no thread may still write into it.
            with closing(_turns(writing, threads)) as turns:
                for images in turns:
                    done += images
                    if progress is not None:
                        progress(done, volumes.num_samples)
    assert done == volumes.num_samples
    shards = 0 if to == "folder" else -(-done // shard_samples)
    return Exported(done, len(names.classes), folder, shards)


def _writing(
    opened: OpenVolumes, names: ExportNames, root: Path, shard_samples: int | None
) -> Writing:
    """Make what writes everything into `root`, in class folders or in shards."""
    if shard_samples is not None:
        return partial(write_shards, opened, plan_shards(opened, names, root, shard_samples))
    _make_folders(root, names)
    write = _write_blocks if opened.volumes.layout == "blocks" else _write_pixels
    return partial(write, opened, names, str(root))


def _make_folders(root: Path, names: ExportNames) -> None:
    for name in names.folders:
        (root / name).mkdir()


def _turns(writing: Writing, threads: int) -> Generator[int, None, None]:
    """Write everything, and yield the number of images of each part as it ends."""
    with ThreadPoolExecutor(threads, "export") as pool:
        try:
            yield from writing(pool)
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
            check_block(file, number, crc)
            crcs.append(crc)
            yield images
        check_whole(file, combine_blocks(crcs, BLOCK_BYTES))


def _write_pixels(
    opened: OpenVolumes, names: ExportNames, root: str, pool: ThreadPoolExecutor
) -> Iterator[int]:
    (file,) = opened.volumes.files
    check_whole(file, payload_crc(file.path, file.size))
    ids = range(opened.volumes.num_samples)

    def write(first: int) -> int:
        turn = ids[first : first + _PIXEL_TURN]
        for sample_id in turn:
            data = png(opened.volumes, opened[sample_id].data)
            _write_new(f"{root}/{names.name(sample_id, data)}", data)
        return len(turn)

    return iter(pool.map(write, ids[::_PIXEL_TURN]))


def _write_new(path: str, data: memoryview) -> None:
    """Write a file that was not there; where names only differ in case, it may be."""
    with open(path, "xb", buffering=0) as file:  # noqa: PTH123  # a million Paths are slow to make
        done = 0
        while done < len(data):  # a raw write may take less than it is given
            done += file.write(data[done:])
