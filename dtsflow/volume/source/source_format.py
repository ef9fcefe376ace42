"""How a source is to be read, where its look does not say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, get_args

Format = Literal["auto", "images", "webdataset", "parquet"]

FORMATS: Final[tuple[Format, ...]] = get_args(Format)
"""What a source can be without any plugin."""


@dataclass(frozen=True, slots=True)
class SourceFormat:
    """What the files of a source are, and which fields of a sample count.

    Attributes:
        kind: `auto` goes by the look of the source; see `list_source`. `images` are
            image files in folders or in a tar; the name of a plugin's source is one.
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
