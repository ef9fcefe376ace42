"""The listing of a source: its images, where they lie, and their labels.

`Stored` is a run of bytes in a file, which is how every source describes an image.
`SourceFormat` says how a source is to be read, where its look does not show it. The
functions check names from archives and manifests before a file gets one, and read small
text files that the user names, one entry a line.
"""

import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, get_args

from dtsflow.errors import PackError


@dataclass(frozen=True, slots=True)
class Stored:
    """`size` bytes from `offset` on in the file at `path`.

    `file_bytes` and `mtime_ns` are the file's when it was listed: they show whether it
    is still the same file.
    """

    path: str
    offset: int
    size: int
    file_bytes: int
    mtime_ns: int

    def read(self) -> bytes:
        """Read all the bytes.

        Raises:
            OSError: The file cannot be opened or read.
            PackError: The file was changed or replaced since it was listed.
        """
        return self.read_parts((0, self.size))[0]

    def read_parts(self, *parts: tuple[int, int]) -> list[bytes]:
        """Read several runs of these bytes, each given by its offset and its length.

        Raises:
            OSError, PackError: As `read`.
        """
        with open(self.path, "rb", buffering=0) as file:  # noqa: PTH123  # a million Paths take a gigabyte
            state = os.fstat(file.fileno())
            if (state.st_size, state.st_mtime_ns) != (self.file_bytes, self.mtime_ns):
                raise _changed(self, state.st_size)
            return [self._read_part(file, start, size) for start, size in parts]

    def _read_part(self, file: io.FileIO, start: int, size: int) -> bytes:
        file.seek(self.offset + start)
        data = file.read(size)
        while len(data) < size:  # one read may give less than asked for
            more = file.read(size - len(data))
            if not more:
                raise _changed(self, self.offset + start + len(data))
            data += more
        return data


def whole_file(path: str, state: os.stat_result) -> Stored:
    """Describe all of one file, whose `os.stat` is at hand."""
    return Stored(path, 0, state.st_size, state.st_size, state.st_mtime_ns)


def _changed(stored: Stored, now: int) -> PackError:
    return PackError(
        f"{stored.path} changed while it was packed: {stored.file_bytes} bytes before, {now} "
        "now (or another time of change). Pack again when nothing writes to the source."
    )


NO_CLASS = -1  # the label of an image that lies in no class
IN_NO_FOLDER = "lies in no class folder"


@dataclass(frozen=True, slots=True)
class SourceImage:
    """One file, archive member or stored sample that may be an image.

    `name` is unique in its source: the path below the source folder, with slashes.
    `label` is an index of the listing's classes, or `NO_CLASS`; `why_no_class` then has
    the reason.
    """

    name: str
    label: int
    stored: Stored
    why_no_class: str = IN_NO_FOLDER


@dataclass(frozen=True, slots=True)
class Reject:
    """Something that is left out, by its name in the source."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Listing:
    """All that a source holds: what may be packed, and what cannot.

    Images are sorted by name, except those of volumes and of a plugin's list, which
    have their own order. `has_label_fields` says that labels come from fields of the
    samples and not from their names. `root` is the folder that names are paths below,
    where the source itself is not that folder.
    """

    classes: tuple[str, ...]
    images: tuple[SourceImage, ...]
    rejects: tuple[Reject, ...] = ()
    has_label_fields: bool = False
    root: Path | None = None


Format = Literal["auto", "images", "webdataset", "parquet"]

FORMATS: Final[tuple[Format, ...]] = get_args(Format)
"""What a source can be without any plugin."""


@dataclass(frozen=True, slots=True)
class SourceFormat:
    """The kind of a source's files, and the fields of a sample that count.

    Attributes:
        kind: `auto` detects the kind; see `list_source`. `images` are image files in
            folders or in a tar; the name of a plugin's source is one.
        image_field: The suffix of the images in shards (`jpg`), or their column.
        label_field: The field of a shard's .json members, or the column of labels.
        spool: The folder that images from Parquet files are unpacked into.
        options: Attributes of a plugin's source, by name.
    """

    kind: Format | str = "auto"
    image_field: str | None = None
    label_field: str | None = None
    spool: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)


def clean(name: str) -> str:
    """Clean a name of empty and `.` parts: `./a//b/` becomes `a/b`."""
    if name and name[0] not in "./" and "//" not in name and "/." not in name and name[-1] != "/":
        return name  # nearly every name: a million of them are not taken apart
    return "/".join(part for part in name.split("/") if part not in {"", "."})


def why_unsafe(name: str) -> str:
    """Explain why no file may get this name below a folder; empty if one may."""
    if name.startswith("/"):
        return "an absolute name"
    if "\0" in name:
        return "a name with a zero byte"
    if ".." in name and ".." in name.split("/"):
        return "a name that leads out of its folder"
    return ""


def is_hidden(name: str) -> bool:
    """Tell whether a part of the name begins with a dot."""
    return name.startswith(".") or "/." in name


TEXT_SUFFIXES = (".txt", ".md", ".json", ".jsonl", ".csv", ".yaml", ".yml")  # beside images


def read_text(path: Path) -> str:
    """Read the text of a UTF-8 file, with or without a byte order mark.

    Raises:
        PackError: It cannot be read, or is not UTF-8.
    """
    try:
        # As bytes, so that every kind of line end is still there for the csv module.
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise PackError(f"{path} cannot be read: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise PackError(
            f"{path} is no UTF-8 text: byte {error.start} cannot be read. Save it as UTF-8."
        ) from error


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each line without its end (LF or CRLF), with its number from 1.

    Raises:
        PackError: The file cannot be read, or a line is blank.
    """
    text = read_text(path)
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else [], 1):
        entry = line.removesuffix("\r")
        if not entry.strip():
            raise PackError(f"{path} line {number} is blank. Remove it: lines are counted.")
        yield number, entry


IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
UNKNOWN = ".bin"
WEBP = ".webp"
SIGNATURE_BYTES = 12  # of an image, that tell its format

SIGNATURES = {
    b"\xff\xd8\xff": ".jpg",
    b"\x89PNG\r\n\x1a\n": ".png",
    b"BM": ".bmp",
    b"GIF8": ".gif",
    b"II*\0": ".tif",
    b"MM\0*": ".tif",
}


def sniffed_suffix(data: bytes | memoryview) -> str:
    """Return the suffix of the image format that these bytes begin as."""
    start = bytes(data[:SIGNATURE_BYTES])
    if start[:4] == b"RIFF" and start[8:] == b"WEBP":
        return WEBP
    for signature, suffix in SIGNATURES.items():
        if start.startswith(signature):
            return suffix
    return UNKNOWN
