"""Checking whole volumes against the checksum in their header, before they are used."""

from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from threading import local

from dtsflow.errors import BlockError
from dtsflow.memory.align import aligned_bytes
from dtsflow.volume.checksum import combine_blocks, crc32
from dtsflow.volume.exact_read import opened, read_into
from dtsflow.volume.file import VolumeFile
from dtsflow.volume.format import BLOCK_BYTES
from dtsflow.volume.volume_set import VolumeSet


def check_whole_files(volumes: VolumeSet, io_threads: int, part: slice = slice(None)) -> None:
    """Compare each file's bytes with the CRC-32 that its header has of all of them.

    With `part`, only the files of that slice of them.

    A file with an extension index is not read for it: the index has the CRC-32 of each
    block, and each is checked when it is read. A pixel set is checked as it is read.

    Raises:
        BlockError: They differ; names the file.
        VolumeError: A file cannot be read.
    """
    if volumes.layout == "pixels":
        return
    files = list({file.path: file for file in volumes.files}.values())[part]  # a mix repeats some
    with ThreadPoolExecutor(io_threads) as pool:
        unindexed = [file for file in files if file.extension is None]
        places = [(file, block) for file in unindexed for block in range(len(file.counts))]
        read = zip(places, pool.map(_Crc(), places), strict=True)
        crcs = {
            path: [crc for _, crc in group]
            for path, group in groupby(read, key=lambda one: one[0][0].path)
        }
    for file in files:
        found = crcs.get(file.path, [])
        if file.extension is not None:
            found = file.extension.block_crcs.tolist()
        _compare(file, combine_blocks(found, BLOCK_BYTES))


def _compare(file: VolumeFile, found: int) -> None:
    if found != file.header.crc_code:
        raise BlockError(
            f"{file.path} is damaged: its blocks have the CRC-32 {found:#010x} together, its "
            f"header says {file.header.crc_code:#010x}. `dtsflow verify` tells more; copy it again."
        )


class _Crc:
    """The CRC-32 of a block of a file; each thread reads into a block of its own."""

    def __init__(self) -> None:
        self._own = local()

    def __call__(self, place: tuple[VolumeFile, int]) -> int:
        file, block = place
        if not hasattr(self._own, "memory"):
            self._own.memory = aligned_bytes(BLOCK_BYTES)
        with opened(file.path) as descriptor:
            read_into(descriptor, self._own.memory, (1 + block) * BLOCK_BYTES, file.path)
        return crc32(self._own.memory.data)
