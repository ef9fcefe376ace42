"""Which images a source holds and what their labels are."""

from dataclasses import dataclass
from pathlib import Path

from dtsflow.volume.source.stored import Stored

NO_CLASS = -1  # the label of an image that lies in no class
IN_NO_FOLDER = "lies in no class folder"


@dataclass(frozen=True, slots=True)
class SourceImage:
    """One file, archive member or stored sample that may be an image.

    `name` is unique in its source: the path below the source folder, with slashes.
    `label` is an index of the listing's classes, or `NO_CLASS`; `why_no_class` then
    says why.
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

    Images are sorted by name, but for those of volumes and of a plugin's list, which
    have their own order. `has_label_fields` says that labels come from fields of the
    samples and not from their names. `root` is the folder that names are paths below,
    where the source itself is not that folder.
    """

    classes: tuple[str, ...]
    images: tuple[SourceImage, ...]
    rejects: tuple[Reject, ...] = ()
    has_label_fields: bool = False
    root: Path | None = None
