"""What a scan found out about a volume without an index, kept for the next scan."""

import hashlib
import logging
import secrets
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dtsflow.volume.header import Header

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
    of all its blocks; so copies share one. A volume whose bytes were changed and whose
    header was not is told by its time of change, which is kept inside: what is there
    for another time is not believed.
    """

    folder: Path

    def look_up(self, header: Header, size: int, changed_ns: int) -> Scanned | None:
        """What is known of a volume; None if nothing is, or nothing sound."""
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
