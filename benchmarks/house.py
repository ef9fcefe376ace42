"""How dtsflow's code is laid out: files, imports, prose, and the way of a batch.

    python benchmarks/house.py [CHECKOUT ...]

prints a column for each checkout, by default for the one that this script lies in: so
the layout before and after a change stand beside each other. The lines of the table:

- A file has one definition if one class or function stands at its top level.
- Files are in an import circle if each is reached from each other by imports. Counted
  are those that run with a file, then also those that a function runs when it is
  called, then also those that only a type checker reads.
- A module has one importer if one other file of the package imports it, in whatever
  way.
- A kind of data set is a class that says where a sample is (`block_of`, `where`) and
  what the whole is (`fingerprint`). Counted are calls of `isinstance` with such a
  class, and patterns of `match` with one.
- A file is touched if a function in it is called, in any thread. Everything has been
  imported and run once before, so what is left is the work and not its preparation.
  A reader that keeps all blocks is watched, and one that streams them.
- A later batch is one of many in the middle of an epoch, where rows are filled in
  chunks of 16; calls are Python's own, of functions in the package, comprehensions
  included, by all threads, divided by the rows.
"""

import argparse
import ast
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

Graph = dict[str, set[str]]  # by module, the modules that it imports

HERE = Path(__file__).resolve()
PACKAGE = "dtsflow"
DATA_SET = {"block_of", "fingerprint", "where"}  # what a kind of data set has
IN_FUNCTIONS, FOR_TYPES = "in functions", "for types"  # imports that do not always run
IS_NO = re.compile(r"\b(is|are) no\b")
NO_VERB = {"What", "Which", "Whether", "How", "Where", "When", "Who", "Whose", "Why"}
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

Calls = Counter[tuple[str, str]]  # how often, by file and function

MODES = "resident", "streaming"  # of the reader
CHUNK_ROWS = 16
BATCH_ROWS = 64
BLOCK_SAMPLES = 320
STEPS = 80  # of the epoch that is watched
WATCHED = range(30, 60)  # the later batches


@dataclass(frozen=True)
class House:
    """The source files of one checkout."""

    root: Path

    @cached_property
    def files(self) -> dict[str, Path]:
        """All source files, by their module's name."""
        found = sorted((self.root / PACKAGE).rglob("*.py"))
        return {self._name(path): path for path in found}

    def _name(self, path: Path) -> str:
        parts = path.relative_to(self.root).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """What stands in each file."""
        return {name: ast.parse(self.text(name)) for name in self.files}

    def text(self, module: str) -> str:
        """The source of a module."""
        return self.files[module].read_text(encoding="utf-8")

    def lines(self, module: str) -> int:
        """How long a file is."""
        return len(self.text(module).splitlines())

    def graph(self, *kinds: str) -> Graph:
        """Find imports among the files; `kinds` are of those that do not always run."""
        return {
            name: {
                module
                for node in _imports(tree, kinds)
                for module in self._modules(node)
                if module != name
            }
            for name, tree in self.trees.items()
        }

    def _modules(self, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        """Name the files that an import runs, of packages their `__init__`."""
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in self.files)
            return
        assert node.level == 0, "imports within the package are absolute"
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            if inner in self.files:
                yield inner
            elif node.module in self.files:
                yield str(node.module)

    @cached_property
    def loose(self) -> list[str]:
        """The files that lie in the package's top folder."""
        return [name for name, path in self.files.items() if path.parent.name == PACKAGE]

    @cached_property
    def lonely(self) -> list[str]:
        """The files with one class or function at their top level."""
        return [
            name
            for name, tree in self.trees.items()
            if sum(isinstance(node, DEFINITIONS) for node in tree.body) == 1
        ]

    @cached_property
    def only_importer(self) -> dict[str, str]:
        """By module that one other file imports, that file."""
        importers: dict[str, set[str]] = {}
        for name, imported in self.graph(IN_FUNCTIONS).items():
            for module in imported:
                importers.setdefault(module, set()).add(name)
        return {
            module: next(iter(those))
            for module, those in sorted(importers.items())
            if len(those) == 1
        }

    @cached_property
    def kinds(self) -> set[str]:
        """The classes that are kinds of data set."""
        return {
            node.name
            for tree in self.trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
            and {one.name for one in node.body if isinstance(one, FUNCTIONS)} >= DATA_SET
            and "Protocol" not in {base.id for base in node.bases if isinstance(base, ast.Name)}
        }

    def kind_checks(self) -> dict[str, int]:
        """By file, how often it asks of which kind a data set is."""
        found = {
            name: sum(self._asks(node) for node in ast.walk(tree))
            for name, tree in self.trees.items()
        }
        return {name: count for name, count in found.items() if count}

    def _asks(self, node: ast.AST) -> bool:
        if isinstance(node, ast.MatchClass):
            classes: ast.AST = node.cls
        elif isinstance(node, ast.Call) and _is_name(node.func, "isinstance"):
            classes = node.args[1]
        else:
            return False
        return any(_is_name(one, kind) for one in ast.walk(classes) for kind in self.kinds)

    def docstrings(self) -> Iterator[str]:
        """Every docstring of the package."""
        for tree in self.trees.values():
            for node in ast.walk(tree):
                if isinstance(node, (ast.Module, *DEFINITIONS)) and (
                    text := ast.get_docstring(node)
                ):
                    yield text


def _is_name(node: ast.AST, name: str) -> bool:
    """Tell a name or the end of a dotted one."""
    return (isinstance(node, ast.Name) and node.id == name) or (
        isinstance(node, ast.Attribute) and node.attr == name
    )


def _imports(node: ast.AST, kinds: Collection[str]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Find what runs when a file is imported, and those of `kinds`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and _is_name(child.test, "TYPE_CHECKING"):
            for other in child.orelse if FOR_TYPES not in kinds else [*child.body, *child.orelse]:
                yield from _imports(ast.Module([other], []), kinds)
        elif IN_FUNCTIONS in kinds or not isinstance(child, FUNCTIONS):
            yield from _imports(child, kinds)


def circles(graph: Graph) -> list[set[str]]:
    """Find the groups of files that import each other, directly or not.

    By Tarjan: each node gets the least number that is reached from it.
    """
    numbers: dict[str, int] = {}
    least: dict[str, int] = {}
    path: list[str] = []
    found: list[set[str]] = []

    def visit(name: str) -> None:
        numbers[name] = least[name] = len(numbers)
        path.append(name)
        for other in sorted(graph[name]):
            if other not in numbers:
                visit(other)
                least[name] = min(least[name], least[other])
            elif other in path:
                least[name] = min(least[name], numbers[other])
        if least[name] == numbers[name]:
            start = path.index(name)
            found.append(set(path[start:]))
            del path[start:]

    for name in sorted(graph):
        if name not in numbers:
            visit(name)
    return [group for group in found if len(group) > 1]


def layout(house: House) -> dict[str, str]:
    """Measure what can be read off the files."""
    lengths = {name: house.lines(name) for name in house.files}
    same = [one for one, by in house.only_importer.items() if _folder(one) == _folder(by)]
    checks = house.kind_checks()
    return {
        "Python source files": f"{len(house.files):,}",
        "lines": f"{sum(lengths.values()):,}",
        "median lines a file": f"{statistics.median(lengths.values()):,.0f}",
        "files over 400 lines": f"{sum(length > 400 for length in lengths.values())}",  # noqa: PLR2004  # the style's limit
        "files with one definition": f"{len(house.lonely)}",
        "loose files in the top folder": f"{len(house.loose)}",
        "files in an import circle": _circle(house.graph()),
        "  with imports in functions": _circle(house.graph(IN_FUNCTIONS)),
        "  and with those for type checkers": _circle(house.graph(IN_FUNCTIONS, FOR_TYPES)),
        "modules with one importer": f"{len(house.only_importer)}",
        "  which lies in the same folder": f"{len(same)}, {sum(map(lengths.get, same)):,} lines",
        "kinds of data set": f"{len(house.kinds)}",
        "  checks of which kind one is": f"{sum(checks.values())} in {len(checks)} files",
    }


def _folder(module: str) -> str:
    return module.rpartition(".")[0]


def _circle(graph: Graph) -> str:
    return " + ".join(str(len(group)) for group in circles(graph)) or "0"


def prose(house: House) -> dict[str, str]:
    """Count the turns of phrase that our style avoids."""
    opening = [text.split()[0] for text in house.docstrings()]
    everything = "\n".join(map(house.text, house.files))
    return {
        "docstrings": f"{len(opening):,}",
        "  that open with What, Which, How and the like": f"{sum(w in NO_VERB for w in opening):,}",
        "  whose first verb is not imperative (D401)": _ruff_count(house.root),
        "“is no”, “are no”": f"{len(IS_NO.findall(everything)):,}",
    }


def _ruff_count(root: Path) -> str:
    words = ["check", "--isolated", "--select", "D401", "--output-format", "json", "--exit-zero"]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *words, str(root / PACKAGE)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    except subprocess.CalledProcessError:
        return "no ruff here"
    return f"{len(json.loads(done.stdout)):,}"


class Watch:
    """Notes what is called in the package while `on`, in every thread."""

    def __init__(self, package: Path) -> None:
        self.on = False
        self.calls: Calls = Counter()
        self._start = f"{package}{os.sep}"
        threading.setprofile(self)
        sys.setprofile(self)

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Note a call; this is what Python calls."""
        code = frame.f_code
        if self.on and event == "call" and code.co_filename.startswith(self._start):
            self.calls[code.co_filename, code.co_qualname] += 1

    def taken(self) -> Calls:
        """End the watch: what was called since."""
        self.on = False
        calls, self.calls = self.calls, Counter()
        return calls


def probe(root: Path) -> dict[str, Any]:
    """Watch a run of the package in `root`, which this process must not have yet."""
    sys.path.insert(0, str(root))
    import dtsflow  # noqa: PLC0415  # the one in `root`
    from dtsflow.testing import jpeg, write_block_volume  # noqa: PLC0415

    package = Path(str(dtsflow.__file__)).resolve().parent
    assert package == (root / PACKAGE).resolve(), f"{package} was imported, not that of {root}"
    images = [(jpeg(seed=number), number % 4) for number in range(16)]
    samples = images * (BLOCK_SAMPLES // len(images))
    blocks = [samples] * (STEPS * BATCH_ROWS // BLOCK_SAMPLES)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_block_volume(Path("made.dts"), blocks)
        watch = Watch(package)
        for mode in MODES:  # once before, to import and to warm up
            _run(dtsflow, mode, watch)
        found: dict[str, Any] = {mode: _seen(*_run(dtsflow, mode, watch)) for mode in MODES}
    return {**found, "core": _has_core()}


def _seen(opened: Calls, first: Calls, later: Calls) -> dict[str, Any]:
    return {
        "opened": len({file for file, _ in opened}),
        "first": len({file for file, _ in opened + first}),
        "files": len({file for file, _ in later}),
        "functions": len(later),
        "calls": later.total() / (len(WATCHED) * BATCH_ROWS),
    }


def _run(dtsflow: Any, mode: str, watch: Watch) -> list[Calls]:
    """Run an epoch: note what opening calls, then its first batch, then later ones."""
    tree = {
        "volume": {"path": "made.dts"},
        "po": {"operations": [
            {"_target_": "dtsflow.po.RandomResizedCrop", "size": 16},
            {"_target_": "dtsflow.po.RandomHorizontalFlip"},
            {"_target_": "dtsflow.po.Normalize", "preset": "imagenet", "dtype": "FP16"},
        ]},
        "reader": {"mode": mode},
        "batch_size": BATCH_ROWS,
        "workers": 2,
    }  # fmt: skip
    watch.on = True
    with dtsflow.open(tree) as run:
        found = [watch.taken()]
        (phase,) = run.plan.phases.values()
        assert phase.chunk_rows == CHUNK_ROWS, f"chunks have {phase.chunk_rows} rows"
        watch.on = True
        for batch in run:
            if batch.step in (0, WATCHED.stop):
                found.append(watch.taken())
            elif batch.step == WATCHED.start:
                watch.on = True
    return found


def _has_core() -> bool:
    return any(name.rpartition(".")[2].startswith("_core") for name in sys.modules)


def work(root: Path) -> dict[str, str]:
    """Watch a run in a process of its own, for another checkout has the same names."""
    done = subprocess.run(
        [sys.executable, str(HERE), "--probe", str(root)],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        return {"touched": f"failed: {done.stderr.strip().splitlines()[-1]}"}
    seen = json.loads(done.stdout)
    titles = {
        "opened": "files that open touches",
        "first": "files that open and its first batch touch",
        "files": "files that a later batch touches",
        "functions": "functions that a later batch calls",
        "calls": "calls a row",
    }
    measures = {
        f"{mode}: {title}": f"{seen[mode][key]:.1f}" if key == "calls" else str(seen[mode][key])
        for mode in MODES
        for key, title in titles.items()
    }
    return {**measures, "native core": "yes" if seen["core"] else "no"}


def table(columns: Mapping[str, Mapping[str, str]]) -> str:
    """Lay measures side by side, a column for each checkout."""
    names = list(dict.fromkeys(name for measures in columns.values() for name in measures))
    rows = [["", *columns]]
    rows += [[name, *(one.get(name, "") for one in columns.values())] for name in names]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)),
            ]
        ).rstrip()
        for row in rows
    )


def main() -> None:
    """Measure the checkouts that the command line names."""
    parser = argparse.ArgumentParser(description="Measure how dtsflow's code is laid out.")
    parser.add_argument("roots", nargs="*", type=Path, default=[HERE.parents[1]])
    parser.add_argument("--probe", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--list", action="store_true", help="also name the files of each count")
    asked = parser.parse_args()
    if asked.probe is not None:
        print(json.dumps(probe(asked.probe.resolve())))
        return
    houses = [House(root.resolve()) for root in asked.roots]
    for house in houses:
        if not house.files:
            parser.error(f"there is no folder {PACKAGE} with Python files in {house.root}")
    print(table({str(one.root): {**layout(one), **prose(one), **work(one.root)} for one in houses}))
    if asked.list:
        for house in houses:
            print(f"\n{house.root}\n{names(house)}")


def names(house: House) -> str:
    """Name the files that the counts are of."""
    checks = house.kind_checks()
    groups = {
        "loose": house.loose,
        "circles": [", ".join(sorted(one)) for one in circles(house.graph(IN_FUNCTIONS))],
        "one definition": house.lonely,
        "one importer": [f"{one} <- {by}" for one, by in house.only_importer.items()],
        f"checks of {', '.join(sorted(house.kinds))}": [f"{n} {c}" for n, c in checks.items()],
    }
    return "\n".join(
        "\n".join([f"{title}:", *(f"  {line}" for line in lines)])
        for title, lines in groups.items()
    )


if __name__ == "__main__":
    main()
