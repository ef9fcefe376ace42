"""WebDataset shards as a source, read in place."""

from collections.abc import Sequence
from pathlib import Path

from dtsflow.volume.source.field_labels import FieldLabels
from dtsflow.volume.source.listing import IN_NO_FOLDER, NO_CLASS, Listing, SourceImage
from dtsflow.volume.source.shard import Shard, ShardSample, read_shard
from dtsflow.volume.source.source_format import SourceFormat
from dtsflow.volume.source.tar_folders import class_folders


def read_webdataset(paths: Sequence[Path], source_format: SourceFormat) -> Listing:
    """List the images of all shards; `read_shard` says what makes a sample.

    Labels are those of the samples where one has any: numbers, or names of classes,
    which `classnames.txt` beside the first shard names and numbers. Else they are the
    folders of the keys, as in a tar. Images are called as their members are, and where
    two shards have one name, all are put below the names of their shards.

    Raises:
        PackError: A shard cannot be read, is damaged or cut short; or a class is none
            of `classnames.txt`.
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
    """A name for each sample of all shards, no two alike."""
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
