"""One volume on disk, read from its header and its block indexes.

`check` refuses a header whose numbers do not fit together. `ScanCache` keeps what a
scan found out about a volume without an extension index, for the next scan.
"""

import hashlib
import logging
import os
import secrets
import struct
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dtsflow.errors import HeaderError
from dtsflow.volume.format.block import BlockIndex, parse_block
from dtsflow.volume.format.extension import (
    EXTENSION_OFFSET,
    PREFIX_BYTES,
    Extension,
    extension_bytes,
)
from dtsflow.volume.format.header import (
    BLOCK_BYTES,
    BLOCK_HEADER_BYTES,
    HEADER_BYTES,
    LEVELS,
    SMALL_AREA_BYTES,
    Header,
    interrupted,
)
from dtsflow.volume.format.io import opened, read_bytes
from dtsflow.volume.format.pixel_file import SMALL_SETS, count_samples


def check(header: Header, path: Path) -> None:
    """Refuse a header that no healthy file of its kind has.

    Words that healthy files get wrong (UPSTREAM 1.6) are not looked at.

    Raises:
        HeaderError: Names the field, its value and the required value.
    """
    _expect(path, "tensor_layout", header.tensor_layout, "NHWC")
    if header.dataset_type.in_blocks:
        _check_blocks(header, path)
    else:
        _check_small(header, path)
    if header.volume_id >= header.num_volumes:
        raise HeaderError(
            f"{path}: volume_id is {header.volume_id} of num_volumes {header.num_volumes}; "
            "ids count from 0. The header is damaged: copy or export the file again."
        )


def _check_blocks(header: Header, path: Path) -> None:
    if header.num_blocks == 0 and header.crc_code == 0:
        raise interrupted(path)
    if header.compress_level not in LEVELS:
        raise HeaderError(
            f"{path}: the level is {header.compress_level}, it must be one of "
            f"{', '.join(map(str, LEVELS))}. The header is damaged: copy or export the "
            "file again."
        )
    blocks = header.num_blocks
    expected = {
        "num_channels": 3,
        "header_bytes": BLOCK_BYTES,
        "block_size": BLOCK_BYTES,
        "block_header_size": BLOCK_HEADER_BYTES[header.compress_level],
        "block_bytes": blocks * BLOCK_BYTES,
        "total_bytes": (1 + blocks) * BLOCK_BYTES,
    }
    for name, value in expected.items():
        _expect(path, name, getattr(header, name), value)


def _check_small(header: Header, path: Path) -> None:
    layout = SMALL_SETS[header.dataset_type]
    expected = {
        "num_channels": layout.channels,
        "image_width": layout.width,
        "image_height": layout.height,
        "header_bytes": SMALL_AREA_BYTES,
        "block_header_size": 0,
        "num_volumes": 1,
    }
    for name, value in expected.items():
        _expect(path, name, getattr(header, name), value)


def _expect(path: Path, name: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise HeaderError(
            f"{path}: {name} is {found!r} in the header, this kind of file has {wanted!r}. "
            f"The {HEADER_BYTES}-byte header is damaged: copy or export the file again."
        )


log = logging.getLogger(__name__)

_MAGIC = b"DTSSCAN1"
_FRONT = struct.Struct("<8sqi")  # magic, time of the volume's last change, largest label


@dataclass(frozen=True, slots=True, eq=False)
class Scanned:
    """The samples in each block of a volume, and the largest label of all."""

    counts: npt.NDArray[np.int64]
    largest_label: int


@dataclass(frozen=True, slots=True)
class ScanCache:
    """Small files in `folder`, one for each content a volume had.

    A file's name is SHA-256 over the volume's size and header, which holds the CRC-32
    of all its blocks; so copies share one. A change of bytes that leaves the header as
    it was shows in the time of change, which is kept inside: facts that were kept for
    another time are not used.
    """

    folder: Path

    def look_up(self, header: Header, size: int, changed_ns: int) -> Scanned | None:
        """Return what is known of a volume; None if nothing is, or nothing sound."""
        try:
            kept = self._path(header, size).read_bytes()
        except OSError:
            return None  # there is none, in nearly all cases; else it is written anew
        return _parse(kept, header, changed_ns)

    def keep(self, header: Header, size: int, changed_ns: int, found: Scanned) -> None:
        """Write down what a scan found. Where that cannot be, it is scanned again."""
        path = self._path(header, size)
        text = _FRONT.pack(_MAGIC, changed_ns, found.largest_label)
        text += found.counts.astype("<u4").tobytes()
        text += zlib.crc32(text).to_bytes(4, "little")
        # Several processes may write the same one: each writes its own, whole, in turn.
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(text)
            temporary.replace(path)
        except OSError as error:
            log.info("%s cannot be written, so volumes are scanned each time: %s", path, error)
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _path(self, header: Header, size: int) -> Path:
        content = size.to_bytes(8, "little") + header.to_bytes()
        return self.folder / f"{hashlib.sha256(content).hexdigest()}.scan"


def _parse(kept: bytes, header: Header, changed_ns: int) -> Scanned | None:
    if len(kept) != _FRONT.size + 4 * header.num_blocks + 4:
        return None
    body = kept[:-4]
    if zlib.crc32(body) != int.from_bytes(kept[-4:], "little"):
        return None
    magic, when, largest_label = _FRONT.unpack_from(body)
    if (magic, when) != (_MAGIC, changed_ns):
        return None
    counts = np.frombuffer(body, "<u4", offset=_FRONT.size).astype(np.int64)
    return Scanned(counts, largest_label)


SCAN_THREADS = 8  # a scan waits for the disk, not for a processor
_TURN_BLOCKS = 64  # blocks one thread scans with one descriptor


@dataclass(frozen=True, slots=True, eq=False)
class VolumeFile:
    """One file that was read and found whole; nothing of it is open.

    `counts` are the samples per block; an MNIST or CIFAR file has one entry, and never
    an extension index.
    """

    path: Path
    header: Header
    size: int
    counts: npt.NDArray[np.int64]
    largest_label: int
    extension: Extension | None = None

    @property
    def num_samples(self) -> int:
        """Return how many samples can be read; a small set's header may say more."""
        return int(self.counts.sum())


def read_header(path: Path) -> Header:
    """Read and check the header alone.

    Raises:
        HeaderError: The header is not that of a healthy file.
        VolumeError: The file cannot be read.
    """
    with opened(path) as descriptor:
        size = min(os.fstat(descriptor).st_size, HEADER_BYTES)
        header = Header.parse(read_bytes(descriptor, size, 0, path).tobytes(), path)
    check(header, path)
    return header


def read_file(path: Path, cache: ScanCache | None = None) -> VolumeFile:
    """Read the header and learn what each block holds; keep nothing open.

    If there is an extension index, it has these facts and no block is looked at.
    Without one the front of every block is read and checked, unless `cache` has what an
    earlier scan found.

    Raises:
        HeaderError: Header, size and number of samples do not agree.
        BlockError: A block's index is damaged.
        VolumeError: The file cannot be read.
    """
    header = read_header(path)
    state = path.stat()
    size = state.st_size
    if not header.dataset_type.in_blocks:
        return _read_small(path, header, size)
    _check_size(path, header, size)
    extension = read_extension(path)
    if extension is not None:
        _check_extension(path, header, extension)
        counts, largest_label = extension.counts.astype(np.int64), header.num_classes - 1
    else:
        known = _scanned(path, header, state, cache)
        counts, largest_label = known.counts, known.largest_label
    counts.flags.writeable = False
    if counts.sum() != header.num_samples:
        raise HeaderError(
            f"{path}: the header counts {header.num_samples} samples, its "
            f"{header.num_blocks} blocks hold {counts.sum()}. One of them is damaged: copy "
            "or export the file again."
        )
    if largest_label >= header.num_classes:
        raise HeaderError(
            f"{path}: the header counts {header.num_classes} classes, a sample has label "
            f"{largest_label}. One of them is damaged: copy or export the file again."
        )
    return VolumeFile(path, header, size, counts, largest_label, extension)


def read_extension(path: Path) -> Extension | None:
    """Read and check the extension index of a block volume; None if it has none.

    Raises:
        HeaderError: It is damaged.
        VolumeError: The file cannot be read.
    """
    with opened(path) as descriptor:
        start = read_bytes(descriptor, PREFIX_BYTES, EXTENSION_OFFSET, path).tobytes()
        total = extension_bytes(start, path)
        area = read_bytes(descriptor, max(total, PREFIX_BYTES), EXTENSION_OFFSET, path)
    return Extension.parse(area.tobytes(), path)


def _check_extension(path: Path, header: Header, extension: Extension) -> None:
    if zlib.crc32(header.to_bytes()) != extension.header_crc:
        raise HeaderError(
            f"{path}: the header has the CRC-32 {zlib.crc32(header.to_bytes()):#010x}, the "
            f"extension index says {extension.header_crc:#010x}. The header was changed: run "
            f"`dtsflow verify {path}`."
        )
    if len(extension.about.class_names) < header.num_classes:
        raise HeaderError(
            f"{path}: the extension index names {len(extension.about.class_names)} classes, the "
            f"header counts {header.num_classes}. Run `dtsflow verify {path}`."
        )
    if len(extension.counts) != header.num_blocks:
        raise HeaderError(
            f"{path}: the extension index is of {len(extension.counts)} blocks, the header counts "
            f"{header.num_blocks}. Run `dtsflow verify {path}`."
        )


def _read_small(path: Path, header: Header, size: int) -> VolumeFile:
    layout = SMALL_SETS[header.dataset_type]
    counts = np.array([count_samples(path, header, size)], np.int64)
    counts.flags.writeable = False
    return VolumeFile(path, header, size, counts, len(layout.class_names) - 1)


def _check_size(path: Path, header: Header, size: int) -> None:
    wanted = (1 + header.num_blocks) * BLOCK_BYTES
    if size < wanted:
        raise HeaderError(
            f"{path} is truncated: it has {size} bytes, its {header.num_blocks} blocks and "
            f"header area take {wanted}. Copy or export it again."
        )
    if size > wanted:
        raise HeaderError(
            f"{path} is damaged: it has {size} bytes, its {header.num_blocks} blocks and "
            f"header area take {wanted}. Something was appended, or a block grew past "
            f"{BLOCK_BYTES} bytes and shifted the rest: export it again."
        )


def _scanned(path: Path, header: Header, state: os.stat_result, cache: ScanCache | None) -> Scanned:
    """Return the facts of the blocks: from `cache`, else from a scan."""
    if cache is None:
        return _scan_blocks(path, header)
    known = cache.look_up(header, state.st_size, state.st_mtime_ns)
    if known is None:
        known = _scan_blocks(path, header)
        cache.keep(header, state.st_size, state.st_mtime_ns, known)
    return known


def _scan_blocks(path: Path, header: Header) -> Scanned:
    turns = [
        range(start, min(start + _TURN_BLOCKS, header.num_blocks))
        for start in range(0, header.num_blocks, _TURN_BLOCKS)
    ]
    scan = partial(_scan_turn, path, header.compress_level)
    with ThreadPoolExecutor(max(1, min(SCAN_THREADS, len(turns)))) as pool:
        indexes = [index for indexes in pool.map(scan, turns) for index in indexes]
    counts = np.array([len(index) for index in indexes], np.int64)
    largest = max((int(index.labels.max(initial=-1)) for index in indexes), default=-1)
    return Scanned(counts, largest)


def _scan_turn(path: Path, level: int, blocks: Iterable[int]) -> list[BlockIndex]:
    page_bytes = BLOCK_HEADER_BYTES[level]
    indexes = []
    with opened(path) as descriptor:
        for block in blocks:
            page = read_bytes(descriptor, page_bytes, (1 + block) * BLOCK_BYTES, path)
            indexes.append(parse_block(page, path=path, block=block, level=level))
    return indexes
