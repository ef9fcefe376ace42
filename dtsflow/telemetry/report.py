"""The report of a run, for a machine to read."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dtsflow.decode.turbojpeg import turbo_version
from dtsflow.plan import Plan
from dtsflow.station.engine import StageTimes
from dtsflow.telemetry.counters import Counters, PhaseCounters
from dtsflow.telemetry.memory import peak_bytes

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
    """The versions of what decides speed and pixels."""
    found = {"python": platform.python_version(), "libjpeg-turbo": turbo_version() or "none"}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
