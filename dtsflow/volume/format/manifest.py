"""`VOLUME.manifest.jsonl`: where each sample of a volume came from."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from dtsflow.errors import VolumeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line: a sample of the volume, by its index in the file.

    `name` is the source's path below the source folder, `bytes` and `sha256` are the
    source's, `crc32` is of the bytes stored in the volume. At level 0 both are the same
    bytes. `width` and `height` are the stored image's.
    """

    id: int
    name: str
    label: int
    bytes: int
    sha256: str
    crc32: int
    width: int
    height: int

    def line(self) -> str:
        """Return the line with its end; ASCII only."""
        values = {name: getattr(self, name) for name in _NAMES}
        return json.dumps(values, separators=(",", ":")) + "\n"


_NAMES = tuple(field.name for field in fields(Entry))


def manifest_path(volume: Path) -> Path:
    """Return the path of a volume's manifest."""
    return volume.with_name(f"{volume.name}.manifest.jsonl")


def rejects_path(volume: Path) -> Path:
    """Return the path of the list of images that were left out of a volume."""
    return volume.with_name(f"{volume.name}.rejects.jsonl")


def read_manifest(path: Path) -> Iterator[Entry]:
    """Read a manifest line by line.

    Raises:
        VolumeError: A line is not an entry; names the file and the line.
    """
    with path.open(encoding="ascii", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield Entry(**json.loads(line))
            except (ValueError, TypeError, RecursionError) as error:
                raise VolumeError(
                    f"{path} line {number} is no manifest entry: {error}. The file was "
                    "changed or cut short: copy it again from where the volume was packed."
                ) from error


def manifest_digest(path: Path) -> str:
    """Return the manifest's SHA-256, as the extension index records it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
