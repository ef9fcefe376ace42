"""`reader.subset`: a part of the data set, by ids, classes, fraction and limit."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dtsflow.config.configurable import configurable, nearest
from dtsflow.errors import ConfigError, PlanError
from dtsflow.reader.order import Ints
from dtsflow.reader.rows import Selection
from dtsflow.volume.data_set import DataSet
from dtsflow.volume.datasets.access import read_labels

_HINT_LENGTH = 200  # characters: a thousand class names help nobody

Class = Annotated[int, Field(strict=True)] | str


@configurable
class Subset:
    """The part of the data set that is read; what is None leaves nothing out.

    Each in this order is applied to what those before it left. Labels, class names,
    sample_ids and draws stay those of the whole data set.

    Attributes:
        ids: Path of a text file, one sample_id a line.
        classes: Names or numbers of the classes to read.
        fraction: The share of each class, rounded, at least one sample. A smaller share
            is part of a larger one.
        limit: The most samples to read. What a smaller limit leaves is part of what a
            larger one does.
    """

    ids: Annotated[str, Field(min_length=1)] | None = None
    classes: Annotated[tuple[Class, ...], Field(min_length=1)] | None = None
    fraction: Annotated[float, Field(gt=0, le=1, strict=True)] | None = None
    limit: Annotated[int, Field(ge=1, strict=True)] | None = None


def select(volumes: DataSet, subset: Subset | None) -> Selection | None:
    """Return the samples of `volumes` that `subset` chooses.

    None if those are all.

    Reads the list of ids, and for classes and fraction the index of every block.

    Raises:
        ConfigError: The list of ids makes no sense, or there is no such class.
        PlanError: No sample is left.
        VolumeError: The index of a block is damaged, or cannot be read.
    """
    if subset is None or subset == Subset():
        return None
    every = volumes.num_samples
    ids = np.arange(every, dtype=np.int64)
    if subset.ids is not None:
        ids = _listed(subset.ids, every)
    if subset.classes is not None or subset.fraction is not None:
        labels = read_labels(volumes)
        if subset.classes is not None:
            ids = _of_classes(ids, labels, subset.classes, volumes)
        if subset.fraction is not None:
            ids = _share(ids, labels[ids], subset.fraction)
    if subset.limit is not None and subset.limit < len(ids):
        ids = np.sort(ids[np.argpartition(ranks(ids), subset.limit)[: subset.limit]])
    return None if len(ids) == every else Selection.of(volumes, ids)


def ranks(ids: Ints) -> npt.NDArray[np.uint64]:
    """Return the rank of each sample where some are to be taken.

    Those of the least ranks are taken.

    It is output number `id` of SplitMix64 from state 0 (Steele, Lea and Flood, 2014):
    it looks like chance, is another for every id, and depends on nothing else.
    """
    words = (ids.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _share(ids: Ints, labels: npt.NDArray[np.int32], fraction: float) -> Ints:
    """Return of each class's ids the share that ranks first."""
    _, classes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    kept = np.maximum(1, np.floor(sizes * fraction + 0.5).astype(np.int64))
    order = np.lexsort((ranks(ids), classes))
    number_in_class = np.arange(len(ids)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(ids[order[number_in_class < kept[classes[order]]]])


def _of_classes(
    ids: Ints, labels: npt.NDArray[np.int32], classes: Iterable[Class], volumes: DataSet
) -> Ints:
    named: dict[str, list[int]] = {}  # several may share a name
    for label, name in enumerate(volumes.class_names if volumes.names_classes else ()):
        named.setdefault(name, []).append(label)
    wanted = [label for word in classes for label in _labels_of(word, named, volumes)]
    found = ids[np.isin(labels[ids], wanted)]
    if not len(found):
        raise PlanError(
            f"reader.subset.classes: none of {len(ids):,} samples is of "
            f"{', '.join(map(repr, classes))}. Choose other classes"
            f"{', or other ids' if len(ids) < len(labels) else ''}."
        )
    return found


def _labels_of(word: Class, named: Mapping[str, list[int]], volumes: DataSet) -> list[int]:
    """Return the labels that a class's name or number means."""
    if isinstance(word, str) and named:
        if word in named:
            return named[word]
        hint = nearest(word, named)
        if len(hint) > _HINT_LENGTH:
            hint = f" It has {len(named):,}; `dtsflow inspect --json` lists them."
        raise ConfigError(f"reader.subset.classes: the data set has no class named {word!r}.{hint}")
    number = int(word) if isinstance(word, int) or _is_number(word) else -1
    last = volumes.num_classes - 1
    if not 0 <= number <= last:
        unnamed = "" if named else " and no names"
        raise ConfigError(
            f"reader.subset.classes: the data set has no class {word!r}; its classes have the "
            f"numbers 0 to {last:,}{unnamed}."
        )
    return [number]


def _listed(path: str, samples: int) -> Ints:
    """Return the ids that a file lists, ascending."""
    where = f"reader.subset.ids: {path}"
    found: dict[int, int] = {}  # with the line of each
    for line, text in enumerate(_read(path).splitlines(), 1):
        if not (word := text.strip()):
            continue
        if not _is_number(word):
            raise ConfigError(
                f"{where} line {line}: {word[:40]!r} is no sample_id. Write one number a line."
            )
        sample_id = int(word)
        if sample_id >= samples:
            raise ConfigError(
                f"{where} line {line}: there is no sample {sample_id}; the data set has 0 to "
                f"{samples - 1}. The list was made for another one."
            )
        if (first := found.setdefault(sample_id, line)) != line:
            raise ConfigError(
                f"{where} line {line}: sample {sample_id} is on line {first} already. An epoch "
                "has each sample once: remove one of the lines."
            )
    if not found:
        raise PlanError(f"{where} lists no sample, so there is no batch to make.")
    return np.sort(np.fromiter(found, np.int64, len(found)))


def _read(path: str) -> str:
    try:
        return Path(path).expanduser().read_text("utf-8-sig")
    except (OSError, RuntimeError, ValueError) as error:  # no such user; no text, no path
        raise ConfigError(
            f"reader.subset.ids: {path[:80]!r} cannot be read: {error}. Name a text file of one "
            "sample_id a line."
        ) from error


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) <= 18  # noqa: PLR2004  # fits int64
