"""The report of a check of volumes."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from dtsflow.errors import VolumeError

Part = Literal["header", "header area", "index", "block", "file", "manifest", "set"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and where.

    `header` is the 144 bytes, `header area` the rest of the area except the `index`.
    `block` and `sample` count from 0 in the file; `part` is then `block`.
    """

    path: Path
    part: Part
    block: int | None
    sample: int | None
    what: str

    def __str__(self) -> str:
        place = self.part if self.block is None else f"block {self.block}"
        if self.sample is not None:
            place += f", sample {self.sample}"
        return f"{self.path}: {place}: {self.what}"


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check: everything found wrong; `notes` are not damage."""

    files: int
    blocks: int
    samples: int
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        """Tell whether nothing is wrong."""
        return not self.problems

    def facts(self) -> dict[str, Any]:
        """Return the report as plain values, such as JSON knows."""
        problems = [{**asdict(one), "path": str(one.path)} for one in self.problems]
        return {**asdict(self), "problems": problems, "notes": list(self.notes)}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> "Report":
        """Make the report from what `facts` gave."""
        problems = tuple(Problem(**{**one, "path": Path(one["path"])}) for one in facts["problems"])
        return cls(**{**facts, "problems": problems, "notes": tuple(facts["notes"])})


def told(error: VolumeError, path: Path) -> str:
    """Return an error's message, for a line that begins with the path already."""
    text = str(error).removeprefix(f"{path}: ").replace(f"{path} ", "the file ", 1)
    return text.split(" Run `dtsflow")[0]
