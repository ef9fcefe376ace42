"""What a finished run was like, on one screen."""

from pathlib import Path
from typing import Any

from dtsflow.memory.drawing import human_bytes
from dtsflow.plan import Plan
from dtsflow.run import Run
from dtsflow.telemetry.bad_sample_log import BAD_SAMPLES


def summary(report: dict[str, Any], run: Run) -> str:
    """The report in a few lines that a person reads."""
    grown = report["peak_rss_bytes"] - report["rss_before_bytes"]
    stages = report["stages"]
    busy = {name: stages[name] for name in ("read", "decode", "po", "native") if stages[name]}
    work = sum(busy.values()) or 1.0
    shares = "   ".join(f"{name} {took:.2f} s ({took / work:.0%})" for name, took in busy.items())
    lines = [
        *_resumed(report, run),
        ("images", f"{report['images']:,} in {report['steps']:,} steps"),
        *_phases(report),
        *_bad(report["bad_samples"], run),
        ("speed", f"{report['images_per_s']:,.0f} images/s with {report['workers']} workers"),
        *_ranks(report),
        ("first batch", f"{report['first_batch_s']:.2f} s after opening the plan"),
        ("workers", shares),
        ("consumer", f"waited {stages['wait']:.2f} s for batches"),
        (
            "memory",
            f"{human_bytes(grown)} more at peak, {human_bytes(report['plan_bytes'])} planned",
        ),
    ]
    if report["digest"]:
        digests = {key: report["digest"][key] for key in ("samples", "sequence")}
        lines += [(f"digest {key}", digest) for key, digest in digests.items() if digest]
    if "sheet" in report:
        lines.append(("sheet", str(_short(Path(report["sheet"])))))
    if run.folder is not None:
        lines.append(("written to", f"{_short(run.folder.path)}/"))
    return "\n".join(f"{name:<16} {text}" for name, text in lines)


def _bad(count: int, run: Run) -> list[tuple[str, str]]:
    if not count:
        return []
    names = {"mask": "masked", "replace": "replaced"}
    actions = {of.phase.decode.on_error for of in run.plan.phases.values()} & names.keys()
    done = " or ".join(sorted(names[action] for action in actions))
    listed = "" if run.folder is None else f", listed in {BAD_SAMPLES}"
    return [("bad samples", f"{count:,} {done}{listed}")]


def _resumed(report: dict[str, Any], run: Run) -> list[tuple[str, str]]:
    if (start := report["resumed_from"]) is None:
        return []
    return [("went on", f"at {place(run.plan, **start)}")]


def _ranks(report: dict[str, Any]) -> list[tuple[str, str]]:
    if "ranks" not in report:
        return []
    spread, waited = report["spread"]["images_per_s"], report["spread"]["wait_s"]
    speeds = "/".join(f"{spread[key]:,.0f}" for key in ("min", "median", "max"))
    waits = "/".join(f"{waited[key]:.2f}" for key in ("min", "median", "max"))
    told = f"{len(report['ranks'])}: {speeds} images/s, waited {waits} s (min/median/max)"
    return [("ranks", told)]


def _phases(report: dict[str, Any]) -> list[tuple[str, str]]:
    phases = report["phases"]
    if len(phases) == 1:
        return []
    return [
        (f"  {name}", f"{of['images']:,} in {of['steps']:,} steps") for name, of in phases.items()
    ]


def place(plan: Plan, phase: str, epoch: int, step: int) -> str:
    """A place in a run, in words."""
    of_phase = "" if len(plan.phases) == 1 else f"{phase}, "
    return f"{of_phase}epoch {epoch:,}, step {step:,} of {plan.phases[phase].order.steps:,}"


def _short(path: Path) -> Path:
    """`path` from the current folder on, if it lies there."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
