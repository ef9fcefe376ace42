"""Seed faults into a copy of dtsflow, one by one, and tell which the tests catch.

    python tests/mutations/run.py [NAME ...] [--list] [--jobs N] [--native]

Run it with the Python that the tests run with. The working tree stays as it is. First
all named tests run in an unchanged copy, where they must pass; then each fault's tests
run with the fault. A fault in C++ is left out without --native, for each takes a build.

Exit status: 0 every fault is caught, 1 one is not, 2 the list or the copy is wrong.
"""

import argparse
import importlib.util
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from faults import (
    ROOT,
    Fault,
    FaultError,
    chosen,
    known_tests,
    locate,
    nodes_of,
    read_faults,
    sources,
)

_FOLDERS = ("benchmarks", "conf", "docs", "dtsflow", "plugins", "tests")
_FILES = ("LICENSE", "README.md", "pyproject.toml")
_NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.egg-info", ".*_cache", ".hypothesis")
_CORE = "dtsflow.native._core"
_NATIVE = (".cpp", ".hpp")
_CLEAN_S = 1800.0  # all tests together
_FAULT_S = 180.0  # the tests of one fault: a hang is caught, too
_FAILED = 1  # pytest's exit status: a test failed; more is no verdict
_WHERE = f"import {_CORE[: -len('._core')]} as n, dtsflow; print(dtsflow.__file__, n.__file__)"
# Without the options that the project gives its own runs.
_PYTEST = (
    *("-m", "pytest", "-c", "pyproject.toml", "--rootdir", ".", "-p", "no:cacheprovider"),
    *("-o", "addopts=--strict-markers --import-mode=importlib", "-q", "--hypothesis-seed=0"),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one fault: a word, what to add to it, and whether that is well."""

    fault: Fault
    word: str
    detail: str
    is_caught: bool


class Copy:
    """A copy of the tree, and a Python that imports dtsflow from it alone.

    That Python is a virtual environment of its own. It sees the packages of the one
    that runs this, but reads none of their `.pth` files, so no editable install comes
    first; and what tests start with `sys.executable` sees the copy, too.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        self.root.mkdir(parents=True)
        for part in _FOLDERS:
            shutil.copytree(ROOT / part, self.root / part, ignore=_NOT_COPIED)
        for part in _FILES:
            shutil.copy2(ROOT / part, self.root)
        if (core := _built_core()) is not None:
            shutil.copy2(core, self.root / "dtsflow" / "native")
        venv.create(folder / "python", symlinks=True)
        self._bin = folder / "python" / "bin"
        for held in Path(sys.prefix, "lib").glob("*mpi*"):
            # The MPI of a wheel, which mpi4py looks for beside the Python that runs.
            (folder / "python" / "lib" / held.name).symlink_to(held)
        (packages,) = (folder / "python").glob("lib/python3*/site-packages")
        theirs = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
        paths = [self.root, *sorted((self.root / "plugins").iterdir()), *theirs]
        (packages / "copy.pth").write_text("".join(f"{path}\n" for path in paths))
        self._output = folder / "output.txt"
        self._seeded = 0
        self._check()

    def _check(self) -> None:
        """Refuse a copy that is not what is imported."""
        told = subprocess.run(
            [self._bin / "python", "-c", _WHERE],
            env=self._environ(), cwd=self.root.parent, capture_output=True, text=True, check=False,
        )  # fmt: skip
        files = told.stdout.split()
        if told.returncode or not all(Path(file).is_relative_to(self.root) for file in files):
            raise FaultError(
                f"the copy in {self.root} is not what is imported, but {files}. {told.stderr}"
            )

    def _environ(self) -> dict[str, str]:
        environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "PYTEST_", "VIRTUAL_ENV"))
        }
        path = [str(self._bin), str(Path(sys.executable).parent), os.environ.get("PATH", "")]
        environ["PATH"] = os.pathsep.join(path)
        # The copy's folder is not where the reference volumes would be looked for.
        environ.setdefault("DTSFLOW_REFERENCE", str(ROOT.parent / "shared" / "reference"))
        return environ

    def run(self, nodes: Iterable[str], *options: str, limit_s: float) -> int | None:
        """Run tests; pytest's exit status, or None if they took too long."""
        with self._output.open("w") as output:
            process = subprocess.Popen(
                [self._bin / "python", *_PYTEST, *options, *sorted(set(nodes))],
                env=self._environ(), cwd=self.root, stdout=output, stderr=output,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            try:
                return process.wait(limit_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                # Whatever the tests started and left ends with them.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    @property
    def output(self) -> str:
        """What the last run said."""
        return self._output.read_text(encoding="utf-8", errors="replace")

    @contextmanager
    def seeded(self, fault: Fault, path: Path) -> Iterator[None]:
        """Change the copy as the fault says, and change it back."""
        file = self.root / path
        before, when = file.read_bytes(), file.stat().st_mtime_ns
        text = before.decode().replace(fault.find, fault.replace)
        file.write_bytes(text.encode())
        # Python takes a compiled file for its source's by time and size: a fault of the
        # same size within a second of the last would not be seen.
        self._seeded += 1
        os.utime(file, ns=(when, when + self._seeded * 10_000_000_000))
        try:
            yield
        finally:
            file.write_bytes(before)
            os.utime(file, ns=(when, when))

    @contextmanager
    def built(self) -> Iterator[None]:
        """Build the core of the copy as it stands; put the old one back afterwards."""
        target = self.root.parent / "built"
        words = ["-m", "pip", "install", "-q", "--no-deps", "--target", str(target), "."]
        done = subprocess.run(
            [sys.executable, *words], cwd=self.root, capture_output=True, text=True, check=False
        )
        made = list((target / "dtsflow" / "native").glob("_core*"))
        if done.returncode or not made:
            raise FaultError(f"the core was not built: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        before = {path: path.read_bytes() for path in (self.root / "dtsflow/native").glob("_core*")}
        try:
            for path in made:
                shutil.copy2(path, self.root / "dtsflow" / "native")
            yield
        finally:
            shutil.rmtree(target)
            for path, content in before.items():
                path.write_bytes(content)


def _built_core() -> Path | None:
    """Find the compiled core that this Python imports, if it has one."""
    try:
        core = importlib.util.find_spec(_CORE)
    except ModuleNotFoundError as error:
        raise FaultError(
            f"{sys.executable} has no dtsflow: install it with its test dependencies, or run this "
            "with the Python that the tests run with."
        ) from error
    return None if core is None or core.origin is None else Path(core.origin)


def _outcomes(report: Path) -> dict[str, set[str]]:
    """Tell which outcomes each test had, over its cases and files, by its name."""
    found: dict[str, set[str]] = {}
    for case in ET.parse(report).iter("testcase"):
        name = case.get("name", "").partition("[")[0]
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        found.setdefault(name, set()).update(kinds or {"passed"})
    return found


def _verdict(copy: Copy, fault: Fault, path: Path, nodes: Sequence[str]) -> Verdict:
    began = time.monotonic()
    with copy.seeded(fault, path):
        if path.suffix in _NATIVE:
            with copy.built():
                status = copy.run(nodes, "-x", limit_s=_FAULT_S)
        else:
            status = copy.run(nodes, "-x", limit_s=_FAULT_S)
    took = f"{time.monotonic() - began:.1f} s"
    if status is None:
        return Verdict(fault, "caught", f"{took}, by a hang of {_FAULT_S:g} s", is_caught=True)
    if status == 0:
        return Verdict(fault, "SURVIVED", f"{took}: {', '.join(fault.tests)}", is_caught=False)
    if status > _FAILED:
        said = copy.output.strip()[-2000:]
        return Verdict(fault, "NO VERDICT", f"no test could run with it\n{said}", is_caught=False)
    told = [line for line in copy.output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    failed = told[0].partition("::")[2].partition(" - ")[0] if told else ""
    by = failed or f"the end of pytest ({status})"  # as after a crash or a hang
    return Verdict(fault, "caught", f"{took}, by {by}", is_caught=True)


def _show(verdict: Verdict) -> None:
    print(f"{verdict.word:<10} {verdict.fault.name:<34} {verdict.detail}", flush=True)


def _clean(copy: Copy, nodes: dict[str, list[str]]) -> dict[str, str]:
    """Run all tests without a fault; tell what is wrong with those of which fault."""
    report = copy.root.parent / "clean.xml"
    every = {node for of_fault in nodes.values() for node in of_fault}
    began = time.monotonic()
    status = copy.run(every, f"--junitxml={report}", limit_s=_CLEAN_S)
    if status not in (0, _FAILED):
        raise FaultError(f"the tests do not run without a fault ({status}):\n{copy.output[-4000:]}")
    outcomes = _outcomes(report)
    print(f"{len(every)} tests without a fault: {time.monotonic() - began:.1f} s", flush=True)
    wrong: dict[str, str] = {}
    for name, of_fault in nodes.items():
        for test in (node.rpartition("::")[2] for node in of_fault):
            found = outcomes.get(test, {"not run"})
            if "passed" not in found or found & {"failure", "error"}:
                wrong[name] = f"{test} without a fault: {', '.join(sorted(found))}"
    return wrong


def _judge(faults: Sequence[Fault], jobs: int) -> list[Verdict]:
    texts, tests = sources(), known_tests()
    paths = {fault.name: locate(fault, texts) for fault in faults}
    nodes = {fault.name: nodes_of(fault, tests) for fault in faults}
    with tempfile.TemporaryDirectory(prefix="dtsflow-faults-") as folder:
        free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for number in range(jobs):
            free.put(Copy(Path(folder).resolve() / str(number)))
        first = free.get()
        wrong = _clean(first, nodes)
        free.put(first)

        def judge(fault: Fault) -> Verdict:
            if fault.name in wrong:
                verdict = Verdict(fault, "NO VERDICT", wrong[fault.name], is_caught=False)
            else:
                copy = free.get()
                try:
                    verdict = _verdict(copy, fault, paths[fault.name], nodes[fault.name])
                finally:
                    free.put(copy)
            _show(verdict)
            return verdict

        with ThreadPoolExecutor(jobs) as pool:
            try:
                return list(pool.map(judge, faults))
            finally:
                pool.shutdown(cancel_futures=True)  # after Ctrl-C no other begins


def _list(faults: Sequence[Fault]) -> None:
    texts = sources()
    for fault in faults:
        print(f"{fault.name}  ({locate(fault, texts)})\n  {fault.why}")


def main(words: list[str]) -> int:
    """Judge the faults that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="faults; all, if none is named")
    parser.add_argument("--list", action="store_true", help="list the faults, and run nothing")
    parser.add_argument("--jobs", type=int, default=1, help="faults at a time (1)")
    parser.add_argument("--native", action="store_true", help="also those in C++, built for each")
    asked = parser.parse_args(words)
    try:
        faults = chosen(read_faults(), asked.names)
        if asked.list:
            _list(faults)
            return 0
        texts = sources()
        if not asked.native:
            faults = [one for one in faults if locate(one, texts).suffix not in _NATIVE]
        began = time.monotonic()
        verdicts = _judge(faults, max(1, asked.jobs))
    except FaultError as error:
        print(error, file=sys.stderr)
        return 2
    caught = sum(verdict.is_caught for verdict in verdicts)
    print(f"{caught} of {len(verdicts)} faults caught in {time.monotonic() - began:.0f} s")
    for verdict in verdicts:
        if not verdict.is_caught:
            _show(verdict)
    return 0 if caught == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
