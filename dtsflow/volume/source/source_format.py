"""How a source is to be read, where its look does not say."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Format = Literal["auto", "images", "webdataset", "parquet"]


@dataclass(frozen=True, slots=True)
class SourceFormat:
    """What the files of a source are, and which fields of a sample count.

    Attributes:
        kind: `auto` goes by the look of the source; see `list_source`. `images` are
            image files in folders or in a tar.
        image_field: The suffix of the images in shards (`jpg`), or their column.
        label_field: The field of a shard's .json members, or the column of labels.
        spool: The folder that images from Parquet files are unpacked into.
    """

    kind: Format = "auto"
    image_field: str | None = None
    label_field: str | None = None
    spool: Path | None = None
