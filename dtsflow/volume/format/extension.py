"""The extension index, in the part of the header area that upstream leaves empty."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dtsflow.errors import HeaderError
from dtsflow.volume.format.header import BLOCK_BYTES

EXTENSION_OFFSET = 4096
EXTENSION_MAGIC = b"DTSX"
EXTENSION_VERSION = 1

_PREFIX = np.dtype(
    [
        ("magic", "S4"),
        ("version", "<u4"),
        ("total_bytes", "<u4"),
        ("crc", "<u4"),
        ("header_crc", "<u4"),
        ("json_bytes", "<u4"),
        ("num_blocks", "<u4"),
        ("num_samples", "<u4"),
    ]
)
PREFIX_BYTES = _PREFIX.itemsize
_CRC_WORD = slice(12, 16)
_JSON_ALIGN = 8
_ROOM = BLOCK_BYTES - EXTENSION_OFFSET


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The part of the index that is in words; written as JSON.

    `options` are the packer's, as plain JSON values. `mean` and `std` are of RGB from 0
    to 1 over all pixels of `statistics_images` images; empty when that is 0. `header`
    is a second copy of the file's 144-byte header, for repairs.
    """

    class_names: tuple[str, ...]
    header: bytes
    manifest_sha256: str
    packer: str
    options: Mapping[str, Any]
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    statistics_images: int = 0

    def to_json(self) -> bytes:
        """Return the JSON text, without padding."""
        values = {
            "class_names": list(self.class_names),
            "header": self.header.hex(),
            "manifest_sha256": self.manifest_sha256,
            "packer": self.packer,
            "options": dict(self.options),
            "mean": list(self.mean),
            "std": list(self.std),
            "statistics_images": self.statistics_images,
        }
        return json.dumps(values, separators=(",", ":")).encode("ascii")

    @classmethod
    def from_json(cls, text: bytes) -> "About":
        """Read what `to_json` wrote; unknown keys are left out.

        Raises:
            ValueError: It is not such a JSON text.
        """
        try:
            values = json.loads(text)
        except RecursionError as error:
            raise ValueError("it is nested too deep") from error
        if not isinstance(values, dict) or not isinstance(values.get("class_names"), list):
            raise ValueError("no class names")  # noqa: TRY004  # the text is wrong, not a type
        return cls(
            class_names=tuple(map(str, values["class_names"])),
            header=bytes.fromhex(values.get("header", "")),
            manifest_sha256=str(values.get("manifest_sha256", "")),
            packer=str(values.get("packer", "")),
            options=dict(values.get("options", {})),
            mean=tuple(map(float, values.get("mean", ()))),
            std=tuple(map(float, values.get("std", ()))),
            statistics_images=int(values.get("statistics_images", 0)),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Extension:
    """The index of one volume; arrays have one entry per block, or per sample.

    `header_crc` covers the 144 bytes of the header, `crc` the index itself. `widths`
    and `heights` are both there or both None; 0 means unknown.
    """

    header_crc: int
    about: About
    block_crcs: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint32]
    widths: npt.NDArray[np.uint16] | None
    heights: npt.NDArray[np.uint16] | None
    crc: int = 0

    @classmethod
    def parse(cls, area: bytes | memoryview, path: Path) -> "Extension | None":
        """Read the index from the bytes at `EXTENSION_OFFSET`; None if none is there.

        `area` needs to hold `extension_bytes` of its start, or may be longer.

        Raises:
            HeaderError: Something is there, but not a whole index of this version.
        """
        total = extension_bytes(area, path)
        if total == 0:
            return None
        prefix = np.frombuffer(area, _PREFIX, 1)[0]
        body = bytearray(area[:total])
        if len(body) < total:
            _refuse(path, f"it takes {total} bytes, {len(body)} are there")
        body[_CRC_WORD] = bytes(4)
        if zlib.crc32(body) != prefix["crc"]:
            _refuse(path, f"its CRC-32 is {zlib.crc32(body):#010x}, it says {prefix['crc']:#010x}")
        return _parts(prefix, bytes(body), path)

    def to_bytes(self) -> bytes:
        """Return the index as it is stored at `EXTENSION_OFFSET`."""
        text = self.about.to_json()
        text += b" " * (-len(text) % _JSON_ALIGN)
        body = text + np.asarray(self.block_crcs, "<u4").tobytes()
        body += np.asarray(self.counts, "<u4").tobytes()
        if self.widths is not None and self.heights is not None:
            body += np.asarray(self.widths, "<u2").tobytes()
            body += np.asarray(self.heights, "<u2").tobytes()
        prefix = np.zeros(1, _PREFIX)
        prefix["magic"] = EXTENSION_MAGIC
        prefix["version"] = EXTENSION_VERSION
        prefix["total_bytes"] = PREFIX_BYTES + len(body)
        prefix["header_crc"] = self.header_crc
        prefix["json_bytes"] = len(text)
        prefix["num_blocks"] = len(self.block_crcs)
        prefix["num_samples"] = int(np.asarray(self.counts, np.int64).sum())
        prefix["crc"] = zlib.crc32(prefix.tobytes() + body)
        return prefix.tobytes() + body


def fits(about: About, num_blocks: int, num_samples: int) -> bool:
    """Tell whether an index with a width and a height per sample fits its area."""
    words = PREFIX_BYTES + len(about.to_json()) + _JSON_ALIGN + 8 * num_blocks
    return words + 4 * num_samples <= _ROOM


def extension_bytes(start: bytes | memoryview, path: Path) -> int:
    """Return the length of the index that `start` (32 bytes) begins; 0: it begins none.

    Raises:
        HeaderError: Something is there, but not an index of this version.
    """
    if not any(start[:PREFIX_BYTES]):
        return 0
    if len(start) < PREFIX_BYTES or bytes(start[:4]) != EXTENSION_MAGIC:
        _refuse(path, f"it starts with {bytes(start[:4])!r}, not {EXTENSION_MAGIC!r}")
    prefix = np.frombuffer(start, _PREFIX, 1)[0]
    if prefix["version"] != EXTENSION_VERSION:
        raise HeaderError(
            f"{path}: the extension index at byte {EXTENSION_OFFSET} is of version "
            f"{prefix['version']}, this program reads {EXTENSION_VERSION}. Read the file with a "
            "newer dtsflow; if none wrote it, it is damaged: run `dtsflow verify` on it."
        )
    total = int(prefix["total_bytes"])
    if not PREFIX_BYTES <= total <= _ROOM:
        _refuse(path, f"it says it takes {total} bytes, the header area leaves {_ROOM}")
    return total


def _parts(prefix: Any, body: bytes, path: Path) -> Extension:
    text_bytes, blocks, samples = (
        int(prefix[name]) for name in ("json_bytes", "num_blocks", "num_samples")
    )
    without_sizes = PREFIX_BYTES + text_bytes + 8 * blocks
    if len(body) not in (without_sizes, without_sizes + 4 * samples):
        _refuse(path, f"{blocks} blocks and {samples} samples do not take {len(body)} bytes")
    try:
        about = About.from_json(body[PREFIX_BYTES : PREFIX_BYTES + text_bytes])
    except (ValueError, TypeError, OverflowError) as error:
        _refuse(path, f"its JSON cannot be read: {error}")
    place = PREFIX_BYTES + text_bytes
    crcs = np.frombuffer(body, "<u4", blocks, place)
    counts = np.frombuffer(body, "<u4", blocks, place + 4 * blocks)
    if int(counts.sum(dtype=np.int64)) != samples:
        _refuse(path, f"it counts {samples} samples, its blocks hold {counts.sum()}")
    has_sizes = len(body) > without_sizes
    return Extension(
        header_crc=int(prefix["header_crc"]),
        about=about,
        block_crcs=crcs.astype(np.uint32),
        counts=counts.astype(np.uint32),
        widths=_sizes(body, samples, without_sizes) if has_sizes else None,
        heights=_sizes(body, samples, without_sizes + 2 * samples) if has_sizes else None,
        crc=int(prefix["crc"]),
    )


def _sizes(body: bytes, samples: int, place: int) -> npt.NDArray[np.uint16]:
    return np.frombuffer(body, "<u2", samples, place).astype(np.uint16)


def _refuse(path: Path, what: str) -> NoReturn:
    raise HeaderError(
        f"{path}: the extension index at byte {EXTENSION_OFFSET} is damaged: {what}. Run "
        f"`dtsflow verify` on the file to see what else is, and `dtsflow repair` to mend it."
    )
