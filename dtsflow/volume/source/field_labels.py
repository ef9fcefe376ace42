"""Labels that come from fields of the samples, as numbers or names."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dtsflow.errors import PackError
from dtsflow.volume.source.labels import number_values, read_classes
from dtsflow.volume.source.listing import NO_CLASS

CLASS_NAMES = "classnames.txt"  # beside the files: one name a line, class 0 first


@dataclass(frozen=True, slots=True)
class FieldLabels:
    """The classes of a source, and the label that each text of its field means."""

    classes: tuple[str, ...]
    numbers: dict[str, int]

    @classmethod
    def of(cls, texts: Iterable[str], first: Path) -> "FieldLabels":
        """Number the texts that samples have; `first` is the first file of the source.

        Whole numbers are labels, other texts names, which get theirs by their order.
        `classnames.txt` beside `first` names the numbers, or numbers the names.

        Raises:
            PackError: A number is no label, or a class is not in `classnames.txt`.
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
        """The label that a text means; `NO_CLASS` where there is none."""
        return self.numbers[text] if text else NO_CLASS
