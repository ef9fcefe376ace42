"""The layout of the code: no circle of imports, and no more small rooms than before."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
MEASURE = runpy.run_path(str(ROOT / "benchmarks" / "house.py"))
IN_FUNCTIONS, FOR_TYPES = MEASURE["IN_FUNCTIONS"], MEASURE["FOR_TYPES"]
circles: Callable[[dict[str, set[str]]], list[set[str]]] = MEASURE["circles"]


def house_of(folder: Path, **files: str) -> Any:
    """A package of these files: names with __ for a folder, and what stands in them."""
    for name, text in {"__init__": "", **files}.items():
        path = folder / "dtsflow" / f"{name.replace('__', '/') if name != '__init__' else name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return MEASURE["House"](folder)


@pytest.fixture(scope="module")
def ours() -> Any:
    return MEASURE["House"](ROOT)


LAZY = "def later():\n    from dtsflow.a import x\n"
TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from dtsflow.a import x\n"


@pytest.mark.parametrize(
    ("other", "kinds"),
    [
        ("import dtsflow.a\n", ()),
        ("class B:\n    from dtsflow import a\n", ()),
        ("try:\n    from dtsflow.a import x\nexcept ImportError: pass\n", ()),
        (LAZY, (IN_FUNCTIONS,)),
        (TYPES, (FOR_TYPES,)),
    ],
)
def test_a_circle_is_found_by_the_imports_that_are_asked_for(
    tmp_path: Path, other: str, kinds: tuple[str, ...]
) -> None:
    house = house_of(
        tmp_path,
        a="from dtsflow.b import y\n",
        b="from dtsflow.c import z\n",
        c=other,
        d="import a",
    )
    assert circles(house.graph(*kinds)) == [{"dtsflow.a", "dtsflow.b", "dtsflow.c"}]
    if kinds:
        assert circles(house.graph()) == []


def test_what_one_file_imports_and_asks_is_counted(tmp_path: Path) -> None:
    kind = "class Tar:\n" + "".join(
        f"    def {name}(self): ...\n" for name in ("block_of", "fingerprint", "where")
    )
    house = house_of(
        tmp_path,
        volume__tar=kind,
        reader="from dtsflow.volume.tar import Tar\nisinstance(x, int | Tar)\nisinstance(x, Bar)\n",
        plan="import os\nmatch x:\n    case Tar(): pass\n    case Bar(): pass\n",
    )
    assert house.only_importer == {"dtsflow.volume.tar": "dtsflow.reader"}
    assert house.kinds == {"Tar"}
    assert house.kind_checks() == {"dtsflow.reader": 1, "dtsflow.plan": 1}
    assert house.lonely == ["dtsflow.volume.tar"]
    assert sorted(house.loose) == ["dtsflow", "dtsflow.plan", "dtsflow.reader"]


def test_no_file_imports_itself_by_others(ours: Any) -> None:
    assert circles(ours.graph()) == []


@pytest.mark.parametrize("kinds", [(IN_FUNCTIONS,), (IN_FUNCTIONS, FOR_TYPES)])
def test_no_file_imports_itself_by_others_later_or_for_its_types(
    ours: Any, kinds: tuple[str, ...]
) -> None:
    assert circles(ours.graph(*kinds)) == []


# What was measured last: lower a number when a change has made it smaller.
MOST = {
    "files with one definition": 13,
    "loose files in the top folder": 8,
    "modules with one importer": 52,
    "checks of which kind a data set is": 45,
}


def test_there_are_no_more_small_rooms_than_before(ours: Any) -> None:
    now = {
        "files with one definition": len(ours.lonely),
        "loose files in the top folder": len(ours.loose),
        "modules with one importer": len(ours.only_importer),
        "checks of which kind a data set is": sum(ours.kind_checks().values()),
    }
    assert {name: count for name, count in now.items() if count > MOST[name]} == {}
