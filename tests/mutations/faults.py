"""The faults that the tests must catch: what each changes, and who notices.

`faults.toml` lists them. No fault names a file: its snippet is looked for in all
source, and its tests by their names, so that both may move.
"""

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LISTED = Path(__file__).with_name("faults.toml")

_SOURCES = ("dtsflow", "conf")
_SUFFIXES = (".py", ".yaml", ".cpp", ".hpp")
_TESTS = ("tests/**/test_*.py", "plugins/*/tests/**/test_*.py")
_TEST = re.compile(r"^def (test_\w+)\(", re.MULTILINE)
_TEXTS = ("name", "find", "replace", "why")


class FaultError(Exception):
    """A fault cannot be seeded or its tests run; says which, and what to do."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A bug that somebody could write.

    Attributes:
        name: What it is called.
        find: A piece of source that stands in one place only.
        replace: What stands there instead.
        why: What would go wrong for a user.
        tests: Names of test functions, one of which must fail.
    """

    name: str
    find: str
    replace: str
    why: str
    tests: tuple[str, ...]

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> "Fault":
        """Read an entry of the list.

        Raises:
            FaultError: A key is missing, unknown or of another type.
        """
        texts = {key: table.get(key) for key in _TEXTS}
        tests = table.get("tests")
        if (
            set(table) != {*_TEXTS, "tests"}
            or not all(isinstance(text, str) for text in texts.values())
            or not (isinstance(tests, list) and tests and all(isinstance(t, str) for t in tests))
        ):
            raise FaultError(
                f"{table.get('name')!r} must have the texts {', '.join(_TEXTS)} and a list of "
                "tests, and nothing else."
            )
        return cls(**{key: str(text) for key, text in texts.items()}, tests=tuple(tests))


def read_faults(path: Path = LISTED) -> list[Fault]:
    """Read the list.

    Raises:
        FaultError: An entry is none, or two have one name.
    """
    faults = [Fault.from_table(table) for table in tomllib.loads(path.read_text("utf-8"))["fault"]]
    names = [fault.name for fault in faults]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise FaultError(f"{', '.join(twice)}: each fault has a name of its own.")
    return faults


def sources(root: Path = ROOT) -> dict[Path, str]:
    """Read all source that a fault may change, by its path below `root`."""
    return {
        path.relative_to(root): path.read_text(encoding="utf-8")
        for part in _SOURCES
        for path in sorted((root / part).rglob("*"))
        if path.suffix in _SUFFIXES
    }


def locate(fault: Fault, texts: dict[Path, str]) -> Path:
    """Find the one file that a fault changes.

    Raises:
        FaultError: Its snippet stands nowhere, or more than once.
    """
    places = [path for path, text in texts.items() for _ in range(text.count(fault.find))]
    if len(places) != 1:
        where = f": {', '.join(map(str, places))}" if places else ""
        raise FaultError(
            f"{fault.name}: its snippet stands in {len(places)} places{where}, and it must stand "
            f"in one. Where the code was rewritten, write the snippet anew.\n{fault.find}"
        )
    return places[0]


def known_tests(root: Path = ROOT) -> dict[str, list[Path]]:
    """Find the files that define each test function, by its name."""
    found: dict[str, list[Path]] = {}
    for pattern in _TESTS:
        for path in sorted(root.glob(pattern)):
            for name in _TEST.findall(path.read_text(encoding="utf-8")):
                found.setdefault(name, []).append(path.relative_to(root))
    return found


def nodes_of(fault: Fault, tests: dict[str, list[Path]]) -> list[str]:
    """Name the tests of a fault as pytest does; of tests of one name all.

    Raises:
        FaultError: There is no such test.
    """
    if missing := [name for name in fault.tests if name not in tests]:
        raise FaultError(
            f"{fault.name}: there is no test function {', '.join(missing)}. Where it was renamed, "
            "name it anew; where it was removed, name one that catches the fault."
        )
    return [f"{path.as_posix()}::{name}" for name in fault.tests for path in tests[name]]


def chosen(faults: Sequence[Fault], names: Iterable[str]) -> list[Fault]:
    """Choose faults by name; all, if none is named.

    Raises:
        FaultError: There is no fault of such a name.
    """
    wanted = set(names)
    if unknown := wanted - {fault.name for fault in faults}:
        raise FaultError(f"there is no fault {', '.join(sorted(unknown))}; --list names all.")
    return [fault for fault in faults if not wanted or fault.name in wanted]
