"""One Parquet file; the only module that imports pyarrow."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dtsflow.errors import MissingPartError, PackError

Kind = Literal["images", "bytes", "number", "text", "other"]

_BATCH_ROWS = 64  # of images that are in memory at a time
_BUFFER_BYTES = 1 << 20  # read at a time, so that a row group need not be in memory whole
_FEATURES_KEY = b"huggingface"  # where the datasets library describes its columns


@dataclass(frozen=True, slots=True)
class ParquetTable:
    """What a file says of itself; holds nothing open.

    `kinds` are those of the columns, in their order: `images` have the fields `bytes`
    and `path`. `features` describe columns as the library `datasets` does, where it
    wrote the file.
    """

    path: Path
    num_rows: int
    kinds: dict[str, Kind]
    features: dict[str, Any]

    @classmethod
    def of(cls, path: Path) -> "ParquetTable":
        """Read the end of a file, which describes it.

        Raises:
            MissingPartError: pyarrow is not installed.
            PackError: It cannot be read, or is no Parquet file.
        """
        with _opened(path) as file:
            schema = file.schema_arrow
            kinds = {field.name: _kind(field.type) for field in schema}
            return cls(path, file.metadata.num_rows, kinds, _features(schema.metadata or {}))

    def image_bytes(self, column: str) -> int:
        """About how many bytes the images of a column take unpacked."""
        leaf = self._leaf(column)
        with _opened(self.path) as file:
            groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
            chunks = [group.column(k) for group in groups for k in range(group.num_columns)]
            return sum(
                int(chunk.total_uncompressed_size)
                for chunk in chunks
                if chunk.path_in_schema == leaf
            )

    def images(self, column: str) -> Iterator[list[bytes | None]]:
        """The stored bytes of every row, some rows at a time.

        Raises:
            PackError: The file is damaged or cannot be read.
        """
        with _opened(self.path) as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=[self._leaf(column)]):
                (values,) = batch.columns
                values = values.field("bytes") if self.kinds[column] == "images" else values
                yield values.to_pylist()

    def names(self, column: str) -> list[str | None]:
        """The paths that the images of a column had; empty where it has none."""
        if self.kinds[column] != "images":
            return []
        with _opened(self.path) as file:
            (values,) = file.read(columns=[f"{column}.path"]).columns
            return [row and row.get("path") for row in values.to_pylist()]

    def values(self, column: str) -> list[Any]:
        """All values of a column of numbers or text."""
        with _opened(self.path) as file:
            (values,) = file.read(columns=[column]).columns
            found: list[Any] = values.to_pylist()
            return found

    def _leaf(self, column: str) -> str:
        return f"{column}.bytes" if self.kinds[column] == "images" else column


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A file open for reading; whatever pyarrow says of it becomes a PackError."""
    try:
        import pyarrow as pa  # noqa: PLC0415  # an extra: imported when a table is opened
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError as error:
        raise MissingPartError(
            f"{path} is a Parquet file, and pyarrow, which reads them, is not installed. Install "
            "it with: pip install 'dtsflow[parquet]'"
        ) from error
    try:
        with pq.ParquetFile(
            path, pre_buffer=False, buffer_size=_BUFFER_BYTES, page_checksum_verification=True
        ) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise PackError(
            f"{path} cannot be read as Parquet; it is damaged, cut short or another kind of file: "
            f"{_first_line(error)}. Copy or download it again."
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")


def _kind(column: Any) -> Kind:
    import pyarrow.types as kinds  # noqa: PLC0415  # it is there: a file is open

    if kinds.is_struct(column):
        fields = {column.field(number).name for number in range(column.num_fields)}
        return "images" if {"bytes", "path"} <= fields else "other"
    if kinds.is_binary(column) or kinds.is_large_binary(column):
        return "bytes"
    if kinds.is_integer(column):
        return "number"
    return "text" if kinds.is_string(column) or kinds.is_large_string(column) else "other"


def _features(metadata: dict[bytes, bytes]) -> dict[str, Any]:
    """The columns as `datasets` describes them; none where that is no such text."""
    try:
        found = json.loads(metadata.get(_FEATURES_KEY, b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
