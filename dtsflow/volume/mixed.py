"""Several data sets as one: the sources of a mix, one after the other."""

from collections.abc import Mapping
from itertools import zip_longest
from typing import overload

from dtsflow.errors import PlanError
from dtsflow.volume.data_set import DataSet
from dtsflow.volume.mixed_set import MixedSet
from dtsflow.volume.volume_set import VolumeSet


@overload
def mixed(sources: Mapping[str, VolumeSet]) -> VolumeSet: ...


@overload
def mixed(sources: Mapping[str, DataSet]) -> VolumeSet | MixedSet: ...


def mixed(sources: Mapping[str, DataSet]) -> VolumeSet | MixedSet:
    """The data set of a mix, from its named sources in config order.

    Blocks and sample_ids of a source start where those of the one before it end. It is
    one of volumes if all sources are.

    Raises:
        PlanError: Images, class names or columns differ; says which sources and in
            what.
    """
    (first, one), *others = sources.items()
    for name, other in others:
        _check_images(first, one, name, other)
        _check_classes(first, one, name, other)
        _check_columns(first, one, name, other)
    volumes = [source for source in sources.values() if isinstance(source, VolumeSet)]
    if len(volumes) < len(sources):
        return MixedSet(tuple(sources.values()))
    files = tuple(file for source in volumes for file in source.files)
    return VolumeSet(files, tuple(len(source.files) for source in volumes))


def _check_images(first: str, one: DataSet, name: str, other: DataSet) -> None:
    are_pixels = {source.layout == "pixels" for source in (one, other)}
    if len(are_pixels) > 1 or one.image != other.image:
        raise PlanError(
            f"reader.mix: {first} holds {_images(one)}, {name} holds {_images(other)}. Mix sources "
            "of compressed images, or pixel sets of one image size."
        )


def _images(source: DataSet) -> str:
    if source.layout != "pixels":
        return "compressed images"
    image = source.image
    return f"pixels of {image.height} x {image.width} x {image.channels}"


def _check_classes(first: str, one: DataSet, name: str, other: DataSet) -> None:
    if one.names_classes != other.names_classes:
        named, unnamed = (first, name) if one.names_classes else (name, first)
        raise PlanError(
            f"reader.mix: {named} names its classes and {unnamed} does not, so nobody can tell "
            f"whether their labels mean the same. Pack {unnamed} again, with its class names."
        )
    if not one.names_classes:
        return  # numbers in all of them
    for label, (ours, theirs) in enumerate(zip_longest(one.class_names, other.class_names)):
        if ours != theirs:
            raise PlanError(
                f"reader.mix: class {label} is {_word(ours)} in {first} and {_word(theirs)} in "
                f"{name}. The sources of a mix must have the same classes: pack one of them again, "
                "with the other's."
            )


def _check_columns(first: str, one: DataSet, name: str, other: DataSet) -> None:
    ours, theirs = ({column.field for column in source.columns} for source in (one, other))
    if [column.field for column in one.columns] != [column.field for column in other.columns]:
        field = next(iter(ours ^ theirs or ours))
        raise PlanError(
            f"reader.mix: {first} and {name} have other fields, such as {field.name!r}. Batches "
            "have the same from all sources: list the same columns, in the same order."
        )


def _word(name: str | None) -> str:
    return "missing" if name is None else repr(name)
