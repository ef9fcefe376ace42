"""WebDataset shards as a source, read in place.

The samples of a shard are the members of a tar with the same key. Their labels may come
from fields of the samples, as numbers or names.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dtsflow.errors import PackError
from dtsflow.volume.source.base import (
    IMAGE_SUFFIXES,
    IN_NO_FOLDER,
    NO_CLASS,
    Listing,
    Reject,
    SourceFormat,
    SourceImage,
    Stored,
    clean,
    is_hidden,
    why_unsafe,
)
from dtsflow.volume.source.labels import number_values, read_classes
from dtsflow.volume.source.tar import Part, class_folders, members, why_unreadable

CLASS_SUFFIX = "cls"  # of the member that holds a label, unless another is asked for
_JSON_SUFFIX = "json"
_MOST_FIELD_BYTES = 1 << 20  # of a label or .json member
_FIRST_MEMBERS = 100  # that are looked at to tell a shard from another tar


@dataclass(frozen=True, slots=True)
class ShardSample:
    """One image of a shard, by its member's name.

    `label` is its text; if the sample has none, it is empty and `why` has the reason.
    """

    name: str
    stored: Stored
    label: str
    why: str


@dataclass(frozen=True, slots=True)
class Shard:
    """All samples of a shard in its order, and what makes none."""

    samples: tuple[ShardSample, ...]
    rejects: tuple[Reject, ...]


@dataclass(frozen=True, slots=True)
class _Member:
    name: str
    stored: Stored


_Sample = dict[str, _Member]  # by suffix, which has lower case and no dot before it


def read_shard(path: Path, source_format: SourceFormat) -> Shard:
    """Sort the members of a tar into samples, and read their labels.

    A key is a member's path up to the first dot of its base name, its suffix the rest.
    Members of one key are one sample, wherever they lie. Its label is the text of the
    member `label_field` (`cls` unless given), or else this field of its `.json`. Hidden
    members and folders are skipped.

    A second member of a name, a member without a suffix, and a sample without an image
    or with several are rejects, which name the shard and the key.

    Raises:
        PackError: The tar cannot be read, is compressed, damaged or cut short.
    """
    try:
        with path.open("rb", buffering=0) as file:
            state = os.fstat(file.fileno())
            rejects: list[Reject] = []
            samples: dict[str, _Sample] = {}
            for member in members(Part(file, 0, state.st_size), str(path)):
                reason = why_unsafe(member.name)
                name = member.name if reason else clean(member.name)
                if not reason and (not name or is_hidden(name) or member.isdir()):
                    continue
                reason = reason or why_unreadable(member)
                stored = Stored(
                    str(path), member.offset_data, member.size, state.st_size, state.st_mtime_ns
                )
                reason = reason or _sort_in(_Member(name, stored), samples)
                if reason:
                    rejects.append(Reject(name, f"{reason} (in {path.name})"))
            reader = _LabelReader(Part(file, 0, state.st_size), source_format.label_field)
            return _shard(path, samples, rejects, reader, source_format.image_field)
    except OSError as error:
        raise PackError(f"{path} cannot be read: {error.strerror}.") from error


def looks_like_shard(path: Path) -> bool:
    """Tell whether a tar has a `.cls` member among its first hundred.

    Raises:
        PackError: As `read_shard`, where it is damaged so far.
    """
    try:
        with path.open("rb", buffering=0) as file:
            part = Part(file, 0, os.fstat(file.fileno()).st_size)
            first = zip(range(_FIRST_MEMBERS), members(part, str(path)), strict=False)
            return any(_parted(clean(member.name))[1] == CLASS_SUFFIX for _, member in first)
    except OSError as error:
        raise PackError(f"{path} cannot be read: {error.strerror}.") from error


def _parted(name: str) -> tuple[str, str]:
    """Part a member's name into its key and suffix."""
    folder, slash, base = name.rpartition("/")
    stem, _, suffix = base.partition(".")
    return f"{folder}{slash}{stem}", suffix.lower()


def _sort_in(member: _Member, samples: dict[str, _Sample]) -> str:
    """Put a member into its sample; why not, or nothing."""
    key, suffix = _parted(member.name)
    if not suffix:
        return "no part of a sample: its name has no suffix"
    sample = samples.setdefault(key, {})
    if suffix in sample:
        return f"a second .{suffix} of the key {key}"
    sample[suffix] = member
    return ""


def _shard(
    path: Path,
    samples: dict[str, _Sample],
    rejects: list[Reject],
    reader: "_LabelReader",
    image_field: str | None,
) -> Shard:
    kept = []
    for key, sample in samples.items():
        images = _images(sample, image_field)
        if len(images) == 1:
            (image,) = images
            label, why = reader.read(sample)
            reason = why and f"{why} (key {key} in {path.name})"
            kept.append(ShardSample(sample[image].name, sample[image].stored, label, reason))
            continue
        has = " ".join(f".{suffix}" for suffix in sample)
        what = "no image" if not images else f"{len(images)} images, and no image field is chosen"
        rejects.append(Reject(key, f"a sample with {what}: it has {has} (in {path.name})"))
    return Shard(tuple(kept), tuple(rejects))


def _images(sample: _Sample, image_field: str | None) -> list[str]:
    """Return the suffixes of a sample that are images."""
    if image_field is not None:
        wanted = image_field.lower().lstrip(".")
        return [wanted] if wanted in sample else []
    return [suffix for suffix in sample if f".{suffix}".endswith(IMAGE_SUFFIXES)]


class _LabelReader:
    """Reads labels from the members of a shard that is open."""

    def __init__(self, part: Part, field: str | None) -> None:
        self._part = part
        self._field = field
        self._suffix = CLASS_SUFFIX if field is None else field.lower().lstrip(".")

    def read(self, sample: Mapping[str, _Member]) -> tuple[str, str]:
        """Return the label of a sample, or why it has none."""
        if self._suffix in sample:
            return self._text(sample[self._suffix])
        if self._field is None or _JSON_SUFFIX not in sample:
            has_json = "" if self._field is None else " and no .json"
            return "", f"has no label: no .{self._suffix}{has_json}"
        text, why = self._text(sample[_JSON_SUFFIX])
        return ("", why) if why else _field_of(text, self._field)

    def _text(self, member: _Member) -> tuple[str, str]:
        size = member.stored.size
        if size > _MOST_FIELD_BYTES:
            return "", f"has no label: {member.name} has {size} bytes, more than any label"
        self._part.seek(member.stored.offset)
        data = self._part.read(size)
        while len(data) < size:  # a raw read may give less than asked for
            data += (more := self._part.read(size - len(data)))
            if not more:
                raise PackError(f"{member.stored.path} became shorter while it was read.")
        try:
            text = data.decode("utf-8").strip()
        except UnicodeDecodeError:
            return "", f"has no label: {member.name} is no UTF-8 text"
        return text, "" if text else f"has no label: {member.name} is empty"


def _field_of(text: str, field: str) -> tuple[str, str]:
    """Return the value of a field of a JSON object, or why it is not a label."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return "", "has no label: its .json is no JSON"
    value = found.get(field) if isinstance(found, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        return "", f"has no label: its .json has no number or text as {field!r}"
    return str(value), ""


CLASS_NAMES = "classnames.txt"  # beside the files: one name a line, class 0 first


@dataclass(frozen=True, slots=True)
class FieldLabels:
    """The classes of a source, and the label that each text of its field means."""

    classes: tuple[str, ...]
    numbers: dict[str, int]

    @classmethod
    def of(cls, texts: Iterable[str], first: Path) -> "FieldLabels":
        """Give the samples' texts numbers; `first` is the first file of the source.

        Whole numbers are labels, other texts names, which get theirs by their order.
        `classnames.txt` beside `first` names the numbers, or numbers the names.

        Raises:
            PackError: A number is not a label, or a class is not in `classnames.txt`.
        """
        classes, numbers = number_values(texts, first)
        place = first.parent / CLASS_NAMES
        if not place.is_file():
            return cls(classes, numbers)
        names = read_classes(place)
        if classes and classes == tuple(map(str, range(len(classes)))):
            return cls._numbered(numbers, names, place)
        by_name = {name: number for number, name in enumerate(names)}
        for name in classes:
            if name not in by_name:
                raise PackError(
                    f"{first} has the class {name!r}, which is not in {place}. Add it there, or "
                    "move the list away."
                )
        return cls(names, {name: by_name[name] for name in classes})

    @classmethod
    def _numbered(
        cls, numbers: dict[str, int], names: tuple[str, ...], place: Path
    ) -> "FieldLabels":
        largest = max(numbers.values())
        if largest >= len(names):
            raise PackError(
                f"{place} names {len(names)} classes, the samples beside it have a class "
                f"{largest}. Add the missing lines: class 0 comes first."
            )
        return cls(names, numbers)

    def number(self, text: str) -> int:
        """Return the label that a text means; `NO_CLASS` where there is none."""
        return self.numbers[text] if text else NO_CLASS


def read_webdataset(paths: Sequence[Path], source_format: SourceFormat) -> Listing:
    """List the images of all shards; `read_shard` defines a sample.

    Labels are those of the samples where one has any: numbers, or names of classes,
    which `classnames.txt` beside the first shard names and numbers. Else they are the
    folders of the keys, as in a tar. Images have the names of their members. If two
    shards have one name, all names are put below those of their shards.

    Raises:
        PackError: A shard cannot be read, is damaged or cut short; or a class is
            not in `classnames.txt`.
    """
    shards = [read_shard(path, source_format) for path in paths]
    samples = [sample for shard in shards for sample in shard.samples]
    has_fields = source_format.label_field is not None or any(one.label for one in samples)
    if has_fields:
        labels = FieldLabels.of({one.label for one in samples if one.label}, paths[0])
        classes = labels.classes
        numbers = [labels.number(one.label) for one in samples]
    else:
        classes, numbers = _by_folders(samples)
    images = [
        SourceImage(name, number, sample.stored, sample.why if has_fields else IN_NO_FOLDER)
        for name, number, sample in zip(_names(paths, shards), numbers, samples, strict=True)
    ]
    images.sort(key=lambda image: image.name)
    rejects = sorted((one for shard in shards for one in shard.rejects), key=lambda one: one.name)
    return Listing(classes, tuple(images), tuple(rejects), has_label_fields=has_fields)


def _by_folders(samples: Sequence[ShardSample]) -> tuple[tuple[str, ...], list[int]]:
    folders = [sample.name.rpartition("/")[0] for sample in samples]
    found = class_folders(set(folders), ())
    numbers = {name: number for number, name in enumerate(found.names)}
    return found.names, [numbers.get(found.below_root(folder), NO_CLASS) for folder in folders]


def _names(paths: Sequence[Path], shards: Sequence[Shard]) -> list[str]:
    """Name each sample of all shards, no two alike."""
    names = [sample.name for shard in shards for sample in shard.samples]
    if len(set(names)) == len(names):
        return names
    stems = [path.stem for path in paths]
    if len(set(stems)) < len(stems):
        stems = [f"{number:06d}" for number in range(len(paths))]
    return [
        f"{stem}/{sample.name}"
        for stem, shard in zip(stems, shards, strict=True)
        for sample in shard.samples
    ]
