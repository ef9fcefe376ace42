"""Measure several programs alternately in one run and report ratios with their spread.

Machines drift: another process starts, a clock changes. So the sides take turns, each
in a fresh process on the same cores, and a ratio is formed within a round and never
across two. A side that cannot run is in the report with its reason.
"""

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PEERS = HERE / ".peers"
RESULTS = HERE / "results"
TIMEOUT_S = 900


@dataclass(frozen=True)
class Side:
    """One program under measurement; `command` prints what `sides/timing.py` says.

    Attributes:
        name: Shown in the table; unique among the sides of a run.
        command: Its words; empty if it cannot run here.
        missing: Why it cannot.
        note: What a reader must know to compare it.
    """

    name: str
    command: tuple[str, ...] = ()
    missing: str = ""
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """One row of the report: a side's speed by another's, `target` being wanted."""

    label: str
    ours: str
    theirs: str
    target: float | None = None


@dataclass
class Measured:
    """What the rounds gave for one side: images per second, or None where it failed."""

    rates: list[float | None] = field(default_factory=list)
    about: str = ""
    problem: str = ""


def script_side(name: str, script: str, job: dict[str, Any], *, note: str = "") -> Side:
    """A side that is `sides/SCRIPT_side.py`, run by this Python or by the peers'."""
    python, missing = Path(sys.executable), ""
    if script != "dtsflow":
        python, missing = PEERS / "bin" / "python", missing_reason(script)
    path = HERE / "sides" / f"{script}_side.py"
    command = () if missing else (str(python), str(path), json.dumps(job))
    return Side(name, command, missing, note)


def missing_reason(peer: str) -> str:
    """Why `peer` cannot run; empty if it can."""
    if not (PEERS / "bin" / "python").exists():
        return "not installed: run benchmarks/peers.sh"
    failed = PEERS / f"{peer}.failed"
    return f"not installed: {failed.read_text().strip()}" if failed.exists() else ""


def pin(cores: int) -> tuple[int, ...]:
    """Keep this process, and so every side, on its first `cores` CPUs."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < cores:
        raise SystemExit(f"--cores {cores}: this process may use {len(allowed)}")
    os.sched_setaffinity(0, allowed[:cores])
    return tuple(allowed[:cores])


def alternate(sides: Sequence[Side], rounds: int, *, unit: str = "images") -> dict[str, Measured]:
    """Run all sides in turn, `rounds` times; a side that failed is not tried again."""
    measured = {side.name: Measured(problem=side.missing) for side in sides}
    for number in range(rounds):
        for side in sides:
            record = measured[side.name]
            rate = None if record.problem else _measure(side, record)
            record.rates.append(rate)
            shown = record.problem if rate is None else f"{rate:,.0f} {unit}/s"
            print(f"round {number + 1}/{rounds}  {side.name:<44} {shown}", flush=True)
    return measured


def _measure(side: Side, record: Measured) -> float | None:
    try:
        done = subprocess.run(
            side.command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
        result = json.loads(done.stdout.splitlines()[-1])
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip() or "it said nothing"
        record.problem = f"failed, exit status {error.returncode}: {said.splitlines()[-1]}"
        return None
    except subprocess.TimeoutExpired:
        record.problem = f"failed: took longer than {TIMEOUT_S} s"
        return None
    record.about = result["about"]
    return result["images"] / result["seconds"]


def ratios(measured: dict[str, Measured], pair: Comparison) -> list[float]:
    """Ours by theirs, for each round that has both."""
    both = zip(measured[pair.ours].rates, measured[pair.theirs].rates, strict=True)
    return [ours / theirs for ours, theirs in both if ours and theirs]


def spread(values: Sequence[float], digits: int) -> str:
    """The median with the least and the greatest, as `1.23 (1.20 to 1.31)`."""
    middle, low, high = statistics.median(values), min(values), max(values)
    return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def report(
    name: str,
    sides: Sequence[Side],
    measured: dict[str, Measured],
    pairs: Sequence[Comparison],
    facts: dict[str, Any],
    *,
    unit: str = "images",
) -> None:
    """Print the tables and write them to `results/NAME.md` and `results/NAME.json`."""
    facts = {**machine(), **facts}
    lines = [f"# {name}", "", *(f"- {key}: {value}" for key, value in facts.items()), ""]
    lines += [*_ratio_table(measured, pairs), "", *_rate_table(sides, measured, unit)]
    text = "\n".join(lines) + "\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    document = {
        "facts": facts,
        "sides": {side.name: {"note": side.note, **vars(measured[side.name])} for side in sides},
        "ratios": [{**vars(pair), "ratios": ratios(measured, pair)} for pair in pairs],
    }
    written = json.dumps(document, indent=2) + "\n"
    (RESULTS / f"{name}.json").write_text(written, encoding="utf-8")
    print(f"\n{text}\nwritten to {RESULTS / name}.md and .json")


def _ratio_table(measured: dict[str, Measured], pairs: Sequence[Comparison]) -> list[str]:
    lines = ["| | ratio: median (min to max) | wanted |", "|---|---|---|"]
    for pair in pairs:
        values = ratios(measured, pair)
        shown = spread(values, 2) if values else _problem(measured, pair)
        wanted = "" if pair.target is None else f"≥ {pair.target:g}"
        lines.append(f"| {pair.label} | {shown} | {wanted} |")
    return lines


def _problem(measured: dict[str, Measured], pair: Comparison) -> str:
    problems = (measured[name].problem for name in (pair.ours, pair.theirs))
    return next((problem for problem in problems if problem), "no round measured both")


def _rate_table(sides: Sequence[Side], measured: dict[str, Measured], unit: str) -> list[str]:
    lines = [f"| side | {unit}/s: median (min to max) | what ran | note |", "|---|---|---|---|"]
    for side in sides:
        record = measured[side.name]
        rates = [rate for rate in record.rates if rate]
        shown = spread(rates, 0) if rates else record.problem
        lines.append(f"| {side.name} | {shown} | {record.about} | {side.note} |")
    return lines


class Others:
    """The CPU time that processes which are not ours took since this was made."""

    def __init__(self) -> None:
        self._began, self._busy, self._own = time.monotonic(), _busy(), _own()

    def __str__(self) -> str:
        taken = max(0.0, _busy() - self._busy - (_own() - self._own))
        return f"{taken / (time.monotonic() - self._began):.2f} CPUs on average"


def _busy() -> float:
    ticks = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    user, nice, system = (int(word) for word in ticks[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def _own() -> float:
    parts = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(part.ru_utime + part.ru_stime for part in parts)


def machine() -> dict[str, Any]:
    """The facts that a figure depends on."""
    models = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    return {
        "date": time.strftime("%Y-%m-%d"),
        "CPU": models[0] if models else platform.processor(),
        "cores used": len(os.sched_getaffinity(0)),
        "Python": platform.python_version(),
        "taken by other processes": str(OTHERS),
    }


OTHERS = Others()  # from the start, so that a busy machine shows in the report
