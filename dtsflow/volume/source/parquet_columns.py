"""Which columns of a table are the images and their labels."""

from dataclasses import dataclass
from typing import Any

from dtsflow.errors import PackError
from dtsflow.volume.source.parquet_table import ParquetTable
from dtsflow.volume.source.source_format import SourceFormat

_LABEL = "label"  # what a column of labels is called where nothing describes it


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of the columns; `label` is None, and `class_names` are, if none is."""

    image: str
    label: str | None
    class_names: tuple[str, ...] | None


def find_columns(table: ParquetTable, source_format: SourceFormat) -> Columns:
    """Choose the columns of a table.

    The images are `image_field`; else the one column of images, or else of bytes. The
    labels are `label_field`; else the one column of class labels, or else the one that
    is called `label`.

    Raises:
        PackError: A column that is asked for is not there or of another kind, or
            several could be meant.
    """
    label = _label(table, source_format.label_field)
    names = None if label is None else _class_names(table, label)
    return Columns(_image(table, source_format.image_field), label, names)


def _image(table: ParquetTable, asked: str | None) -> str:
    if asked is not None:
        return _asked(table, asked, {"images", "bytes"}, "images")
    kinds = table.kinds.items()
    found = [name for name, kind in kinds if kind == "images"]
    found = found or [name for name, kind in kinds if kind == "bytes"]
    if len(found) != 1:
        raise PackError(
            f"{table.path} has {len(found)} columns that may be images ({_listed(found)}) among "
            f"{_listed(table.kinds)}. Choose one: --image-field, or volume.image_field."
        )
    return found[0]


def _label(table: ParquetTable, asked: str | None) -> str | None:
    usable = {"number", "text"}
    if asked is not None:
        return _asked(table, asked, usable, "numbers or text")
    found = [
        name
        for name, kind in table.kinds.items()
        if kind == "number" and _is_class_label(table.features.get(name))
    ]
    if len(found) > 1:
        raise PackError(
            f"{table.path} has {len(found)} columns of labels: {_listed(found)}. Choose one: "
            "--label-field, or volume.label_field."
        )
    if found:
        return found[0]
    return _LABEL if table.kinds.get(_LABEL) in usable else None


def _asked(table: ParquetTable, name: str, kinds: set[str], what: str) -> str:
    if table.kinds.get(name) not in kinds:
        found = "has no column" if name not in table.kinds else "has other values in the column"
        raise PackError(
            f"{table.path} {found} {name!r}; it takes one of {what}. Its columns: "
            f"{_listed(table.kinds)}."
        )
    return name


def _is_class_label(feature: Any) -> bool:
    return isinstance(feature, dict) and feature.get("_type") == "ClassLabel"


def _class_names(table: ParquetTable, label: str) -> tuple[str, ...] | None:
    feature = table.features.get(label)
    names = feature.get("names") if feature is not None and _is_class_label(feature) else None
    if names is None:
        return None
    if not isinstance(names, list) or not names or len(set(map(str, names))) < len(names):
        raise PackError(f"{table.path} describes {label!r} with class names that are no list.")
    return tuple(map(str, names))


def _listed(names: Any) -> str:
    return ", ".join(names) or "none"
