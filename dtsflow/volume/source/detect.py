"""Detecting which kind of source a path is."""

import os
import stat
from pathlib import Path

from dtsflow.errors import PackError
from dtsflow.volume.format.header import SUFFIX
from dtsflow.volume.source.base import FORMATS, Listing, SourceFormat
from dtsflow.volume.source.folder import read_tree
from dtsflow.volume.source.parquet import read_parquet
from dtsflow.volume.source.plugin import list_plugin_source, source_of
from dtsflow.volume.source.shards import is_folder_of, is_pattern, part_files
from dtsflow.volume.source.tar import COMPRESSED_SUFFIXES, TAR_SUFFIX, read_tar
from dtsflow.volume.source.volumes import read_volumes
from dtsflow.volume.source.webdataset import looks_like_shard, read_webdataset

PARQUET_SUFFIX = ".parquet"
_KINDS = {SUFFIX: "volumes", TAR_SUFFIX: "webdataset", PARQUET_SUFFIX: "parquet"}
_BY_LOOK = SourceFormat()


def list_source(path: Path, source_format: SourceFormat = _BY_LOOK) -> Listing:
    """List a folder of images, a tar, shards, Parquet files, volumes, a plugin's file.

    If the format does not name the kind, it is detected. A folder that itself holds a
    .dts file is one of volumes. A folder of .tar or .parquet files and otherwise only
    texts is one of shards or of a table. Any other folder is one of images. A .tar is a
    shard if a label field is asked for, or one of its first hundred members is a .cls;
    else it holds class folders. A pattern or brace list ends with the suffix of the
    files that it names. Any other file is the source of the plugin that claims its
    suffix. Volumes are in volume order, the images of a plugin in its own, all else is
    sorted by name.

    Raises:
        PackError: It is none of these, or is not there; lists what it may be.
        MissingPartError: It needs a library that is not installed.
        VolumeError: It is one of these, but cannot be read.
    """
    mode = _mode(path)
    kind = source_format.kind
    if kind == "auto":
        kind = _look(path, mode, source_format)
    _check_options(path, kind, source_format)
    match kind:
        case "volumes":
            return read_volumes(path)[0]
        case "webdataset":
            return read_webdataset(part_files(path, TAR_SUFFIX), source_format)
        case "parquet":
            _refuse_spool_inside(path, source_format.spool)
            return read_parquet(part_files(path, PARQUET_SUFFIX), source_format)
        case "images" if stat.S_ISDIR(mode):
            return read_tree(path)
        case "images" if stat.S_ISREG(mode) and _is_tar(path):
            return read_tar(path)
        case str() if kind not in FORMATS and stat.S_ISREG(mode):
            return list_plugin_source(kind, path, source_format.options)
    what = "is no source of images" if mode else "is not there"
    raise PackError(
        f"{path} {what}. Name a folder of class folders, a folder of images (with --labels), a "
        f"{TAR_SUFFIX} of either or of one tar per class, a {SUFFIX} volume, a folder of "
        f"volumes, or a quoted pattern such as 'data/*{SUFFIX}'; or WebDataset shards or "
        f"{PARQUET_SUFFIX} files: one, a folder or a pattern of them; or a file that a plugin "
        "reads, see `dtsflow plugins`."
    )


def _look(path: Path, mode: int, source_format: SourceFormat) -> str:
    """Return the kind that a source looks like; `images` if it looks like no other."""
    if stat.S_ISDIR(mode):
        if holds_volumes(path):
            return "volumes"
        folders = (kind for suffix, kind in _KINDS.items() if is_folder_of(path, suffix))
        return next(folders, "images")
    kind = _KINDS.get(path.suffix.lower(), "images")
    if not mode:
        return kind if is_pattern(path) else "images"
    return _look_of_file(path, kind, source_format) if stat.S_ISREG(mode) else "images"


def _look_of_file(path: Path, kind: str, source_format: SourceFormat) -> str:
    """Return the kind of a file whose suffix is that of `kind`."""
    if kind == "images" and not _is_tar(path):
        return source_of(path.suffix) or kind
    if kind == "webdataset" and source_format.label_field is None and not looks_like_shard(path):
        return "images"
    return kind


def _check_options(path: Path, kind: str, source_format: SourceFormat) -> None:
    """Raise PackError for what the kind of source that this is does not know."""
    if kind in FORMATS or kind == "volumes":
        if source_format.options:
            option = next(iter(source_format.options))
            raise PackError(
                f"{path} is read by dtsflow itself, and --option {option} is for the source of a "
                "plugin. Leave it out, or name the plugin's with --format."
            )
    elif (source_format.image_field, source_format.label_field, source_format.spool) != (None,) * 3:
        raise PackError(
            f"{path} is a source of the plugin {kind!r}: --image-field, --label-field and --spool "
            "are for others. Say it by --option NAME=VALUE."
        )


def _refuse_spool_inside(path: Path, spool: Path | None) -> None:
    """Raise PackError if a folder would look like another source afterwards."""
    if spool is not None and path.is_dir() and spool.resolve().is_relative_to(path.resolve()):
        raise PackError(
            f"the spool {spool} lies in the source {path}. Choose a folder beside it: nothing is "
            "written into a source."
        )


def _is_tar(path: Path) -> bool:
    return path.name.lower().endswith((TAR_SUFFIX, *COMPRESSED_SUFFIXES))


def _mode(path: Path) -> int:
    """Return the file's type and mode; 0 if nothing is there."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PackError(f"{str(path)[:80]} cannot be looked up: {reason}.") from error


def holds_volumes(folder: Path) -> bool:
    """Tell whether a folder is one of volumes: a .dts file lies directly in it.

    Raises:
        PackError: It cannot be listed.
    """
    try:
        with os.scandir(folder) as entries:
            return any(
                entry.name.endswith(SUFFIX) and not entry.name.startswith(".") and entry.is_file()
                for entry in entries
            )
    except OSError as error:
        raise PackError(f"{folder} cannot be listed: {error.strerror}.") from error
