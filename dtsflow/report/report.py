"""The report of a run, or of several ranks together, for a machine to read.

It includes the memory that this process holds, as the operating system counts it.
"""

import contextlib
import platform
import resource
import sys
from collections.abc import Container, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from dtsflow.consumer.digest import add_sequences
from dtsflow.decode.turbojpeg import turbo_version
from dtsflow.pipeline.plan import Plan
from dtsflow.report.counters import Counters, PhaseCounters
from dtsflow.station.engine import StageTimes
from dtsflow.volume.data_set import Split

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def resident_bytes() -> int:
    """Return the bytes resident now.

    The peak so far where the system does not tell.
    """
    return _status("VmRSS") or peak_bytes()


def reset_peak() -> None:
    """Let `peak_bytes` count from now on, where the system can do that (Linux)."""
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5")  # proc(5): 5 resets the peak resident set size


def peak_bytes() -> int:
    """Return the most bytes that were resident since `reset_peak`, or ever."""
    if found := _status("VmHWM"):
        return found
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage: bytes on macOS, KiB on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(key: str) -> int:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return 0
    found = (line.split()[1] for line in lines if line.startswith(f"{key}:"))
    return int(next(found, "0")) * 1024


_PACKAGES = ("dtsflow", "numpy", "Pillow", "PyTurboJPEG", "hydra-core", "pydantic")


def report(
    plan: Plan, counters: Counters, times: StageTimes, results: dict[str, Any], command: str
) -> dict[str, Any]:
    """Everything that report.json holds.

    Times are seconds; `stages` sums over the workers, but for `wait`, which is what the
    consumer waited.
    """
    pipeline = plan.pipeline
    own = {
        "images": counters.images,
        "images_per_s": counters.images_per_s,
        "steps": counters.steps,
        "bad_samples": counters.bad_samples,
        "steps_per_epoch": plan.steps,
        "epochs": pipeline.epochs,
        "first_batch_s": max(0.0, counters.first_batch - counters.opened),
        "peak_rss_bytes": peak_bytes(),
        "rss_before_bytes": counters.rss_before,
        "plan_bytes": plan.total_bytes,
        "plan_digest": plan.digest(),
        "workers": plan.workers,
        "stages": {
            "read": times.read,
            "decode": times.decode,
            "po": times.po,
            "native": times.native,
            "wait": counters.waited_s,
        },
        "phases": {name: _phase(plan, counters, name) for name in plan.phases},
        "digest": None,
        "command": command,
        "versions": versions(),
    }
    taken = results.keys() & (own.keys() - {"digest"})
    assert not taken, f"a consumer's results would hide {taken}"
    return own | results


def _phase(plan: Plan, counters: Counters, name: str) -> dict[str, Any]:
    counted = counters.phases.get(name, PhaseCounters())
    mode, reason = plan.reading[name]
    return {
        "images": counted.images,
        "bad_samples": counted.bad_samples,
        "steps": counted.steps,
        "steps_per_epoch": plan.phases[name].order.steps,
        "wait_s": counted.waited_s,
        "split": plan.phases[name].split.value,
        "reader": {"mode": mode, "reason": reason},
    }


def versions() -> dict[str, str]:
    """Return the versions of what decides speed and pixels."""
    found = {"python": platform.python_version(), "libjpeg-turbo": turbo_version() or "none"}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


_SUMS = ("images", "bad_samples")
_ROW = ("images", "steps", "images_per_s", "first_batch_s", "peak_rss_bytes", "bad_samples")


def ranks_report(reports: Sequence[dict[str, Any]], *, level: bool = True) -> dict[str, Any]:
    """Rank 0's report with the sums over all ranks, and a row for each, as `ranks`.

    Images, images a second and bad samples are those of all ranks; `spread` has the
    least, middle and most images a second and seconds waited of a rank. Of digests,
    `sequence` adds up; `samples`, which does not, is null. What is broadcast in a phase
    is the same on all ranks and counts once, in all of these; its `sequence` is null if
    it was not the same after all. Ranks that are not `level` were stopped at different
    batches: what some had more of comes again when the run goes on, so there is no
    digest.
    """
    first = reports[0]
    broadcast = {
        name for name, one in first["phases"].items() if one["split"] == Split.BROADCAST.value
    }
    again = [_counted_before(one, broadcast) for one in reports[1:]]
    whole = dict(first)
    for name in _SUMS:
        whole[name] = sum(one[name] for one in reports) - sum(one[name] for one in again)
    whole["images_per_s"] = first["images_per_s"] + sum(
        one["images_per_s"] * (1 - twice["images"] / max(1, one["images"]))
        for one, twice in zip(reports[1:], again, strict=True)
    )
    whole["phases"] = {
        phase: {**of_phase, **_of_phase(phase, reports, broadcast)}
        for phase, of_phase in whole["phases"].items()
    }
    digests = [one["digest"] for one in reports if one["digest"] is not None]
    complete = level and len(digests) == len(reports)
    whole["digest"] = _digest(digests, broadcast) if complete else None
    rows = [
        {
            "rank": rank,
            **{name: one[name] for name in _ROW},
            "wait_s": one["stages"]["wait"],
            "io_retries": sum(of["reader"]["io_retries"] for of in one["phases"].values()),
        }
        for rank, one in enumerate(reports)
    ]
    spread = {name: _spread([row[name] for row in rows]) for name in ("images_per_s", "wait_s")}
    return {**whole, "ranks": rows, "spread": spread}


def _spread(values: list[float]) -> dict[str, float]:
    return {"min": min(values), "median": median(values), "max": max(values)}


def _counted_before(report: Mapping[str, Any], broadcast: Container[str]) -> dict[str, int]:
    """Return what a rank after the first has of rows that the first one has, too."""
    phases = [one for name, one in report["phases"].items() if name in broadcast]
    return {name: sum(one[name] for one in phases) for name in _SUMS}


def _of_phase(
    phase: str, reports: Sequence[Mapping[str, Any]], broadcast: Container[str]
) -> dict[str, int]:
    own = [one["phases"][phase] for one in reports[: 1 if phase in broadcast else None]]
    return {name: sum(one[name] for one in own) for name in _SUMS}


def _digest(digests: Sequence[Mapping[str, Any]], broadcast: Container[str]) -> dict[str, Any]:
    found: dict[tuple[str, int], list[str]] = {}
    for digest in digests:
        for part in digest["epochs"]:
            found.setdefault((part["phase"], part["epoch"]), []).append(part["sequence"])
    sequences = {
        (phase, epoch): _same(own, len(digests)) if phase in broadcast else add_sequences(own)
        for (phase, epoch), own in sorted(found.items())
    }
    known = [sequence for sequence in sequences.values() if sequence is not None]
    return {
        "samples": None,
        "sequence": add_sequences(known) if len(known) == len(sequences) else None,
        "epochs": [
            {"phase": phase, "epoch": epoch, "samples": None, "sequence": sequence}
            for (phase, epoch), sequence in sequences.items()
        ],
    }


def _same(sequences: Sequence[str], ranks: int) -> str | None:
    """Return the one that all ranks have; None if they differ."""
    return sequences[0] if len(sequences) == ranks and len(set(sequences)) == 1 else None
