"""The manifest as a configuration names it."""

from dataclasses import field
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from dtsflow.plugin import ImageList, VolumeError, configurable, folder_at, read_classes
from dtsflow_image_manifest.labels import labels_of
from dtsflow_image_manifest.table import CSV, JSON_LINES, Table, read_table
from dtsflow_image_manifest.values import KIND, column_of, field_of

Text = Annotated[str, Field(min_length=1)]
Kind = Annotated[str, Field(pattern=f"^{KIND}$")]


@configurable
class ImageManifest:
    """Images listed in a CSV with a header, or in JSON Lines; satisfies ImageLoader.

    A row is an image, and its number, from 0, the sample_id.

    Attributes:
        path: The manifest, a .csv or .jsonl file; `pkg://PACKAGE/FILE` is one within a
            package.
        root: The folder that the paths of images are relative to; None: the manifest's.
        image: The column of the paths.
        label: The column of the labels, numbers or names of classes; None: there is
            none, and every label is -1.
        classes: A file of class names, class 0 first, or a volume that has names. None:
            the manifest's own.
        fields: Further columns that a batch gets, by name: `INT32`, `INT64`, `FP32` or
            `FP64`; with a length, as in `FP32[4]`, lists of so many numbers.
    """

    suffixes: ClassVar[tuple[str, ...]] = (CSV, JSON_LINES)

    path: Text
    root: Text | None = None
    image: Text = "image"
    label: Text | None = "label"
    classes: Text | None = None
    fields: dict[Text, Kind] = field(default_factory=dict)

    def list_images(self) -> ImageList:
        """Read the manifest.

        Raises:
            VolumeError: It cannot be read, or a row is not what it should be; names the
                file and the line.
        """
        place = _place(self.path)
        declared = [field_of(name, kind) for name, kind in self.fields.items()]
        names = [self.image, *([] if self.label is None else [self.label]), *self.fields]
        table = read_table(place, names)
        labels, classes = self._labels(table)
        return ImageList(
            root=place.parent if self.root is None else folder_at(self.root),
            names=_paths(table, self.image),
            labels=labels,
            classes=classes,
            where=table.where,
            columns=tuple(column_of(table, one) for one in declared),
        )

    def _labels(self, table: Table) -> tuple[list[int], tuple[str, ...]]:
        known = None if self.classes is None else read_classes(Path(self.classes).expanduser())
        if self.label is None:
            return [-1] * len(table), known or ()
        return labels_of(table, self.label, known)


def _place(path: str) -> Path:
    if not path.startswith("pkg://"):
        return folder_at(path)
    folder, _, name = path.rpartition("/")
    return folder_at(folder) / name


def _paths(table: Table, column: str) -> list[str]:
    paths = []
    for row, cell in enumerate(table.columns[column]):
        if not isinstance(cell, str):
            raise VolumeError(
                f"{table.where(row)}: {column} is {cell!r}, and must be the path of an image."
            )
        paths.append(cell)
    return paths
