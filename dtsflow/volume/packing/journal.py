"""What of one volume is already written, so that a killed pack can go on."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dtsflow.volume.packing.statistics import Sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The state after one block: everything up to it is in the files.

    `position` counts the items of the stream, `count` and `crc` are the block's own;
    the rest is of all blocks so far. `manifest_bytes` and `rejects_bytes` are how long
    those files are.
    """

    position: int = 0
    count: int = 0
    crc: int = 0
    samples: int = 0
    source_bytes: int = 0
    max_area: int = 0
    manifest_bytes: int = 0
    rejects_bytes: int = 0
    rejects: int = 0
    sums: Sums = field(default_factory=Sums)

    def line(self) -> bytes:
        """The mark as one line of JSON."""
        return json.dumps(asdict(self)).encode("ascii") + b"\n"


def journal_path(volume: Path) -> Path:
    """Where the marks of a volume lie while it is written."""
    return volume.with_name(f"{volume.name}.journal")


def read_marks(path: Path) -> list[Mark]:
    """The marks that were written whole, in order; none where there is no file."""
    marks: list[Mark] = []
    if path.exists():
        for line in path.read_bytes().splitlines(keepends=True):
            mark = _parse(line)
            if mark is None:
                break
            marks.append(mark)
    return marks


def _parse(line: bytes) -> Mark | None:
    if not line.endswith(b"\n"):
        return None
    try:
        values: dict[str, Any] = json.loads(line)
        sums = values.pop("sums")
        sums.update(totals=tuple(sums["totals"]), squares=tuple(sums["squares"]))
        return Mark(**values, sums=Sums(**sums))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None  # a crash of the machine, not of the program, may leave anything
