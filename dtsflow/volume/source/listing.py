"""Which images a source holds and what their labels are."""

from dataclasses import dataclass

from dtsflow.volume.source.stored import Stored

NO_CLASS = -1  # the label of an image that lies in no class


@dataclass(frozen=True, slots=True)
class SourceImage:
    """One file, archive member or stored sample that may be an image.

    `name` is unique in its source: the path below the source folder, with slashes.
    `label` is an index of the listing's classes, or `NO_CLASS`.
    """

    name: str
    label: int
    stored: Stored


@dataclass(frozen=True, slots=True)
class Reject:
    """Something that is left out, by its name in the source."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Listing:
    """All that a source holds: what may be packed, sorted by name, and what cannot."""

    classes: tuple[str, ...]
    images: tuple[SourceImage, ...]
    rejects: tuple[Reject, ...] = ()
