"""What a finished run was like, on one screen."""

from pathlib import Path
from typing import Any

from dtsflow.memory.drawing import human_bytes
from dtsflow.run import Run


def summary(report: dict[str, Any], run: Run) -> str:
    """The report in a few lines that a person reads."""
    grown = report["peak_rss_bytes"] - report["rss_before_bytes"]
    stages = report["stages"]
    busy = {name: stages[name] for name in ("read", "decode", "po", "native") if stages[name]}
    work = sum(busy.values()) or 1.0
    shares = "   ".join(f"{name} {took:.2f} s ({took / work:.0%})" for name, took in busy.items())
    lines = [
        ("images", f"{report['images']:,} in {report['steps']:,} steps"),
        ("speed", f"{report['images_per_s']:,.0f} images/s with {report['workers']} workers"),
        ("first batch", f"{report['first_batch_s']:.2f} s after opening the plan"),
        ("workers", shares),
        ("consumer", f"waited {stages['wait']:.2f} s for batches"),
        (
            "memory",
            f"{human_bytes(grown)} more at peak, {human_bytes(report['plan_bytes'])} planned",
        ),
    ]
    if report["digest"]:
        lines += [(f"digest {key}", report["digest"][key]) for key in ("samples", "sequence")]
    if "sheet" in report:
        lines.append(("sheet", str(_short(Path(report["sheet"])))))
    if run.folder is not None:
        lines.append(("written to", f"{_short(run.folder.path)}/"))
    return "\n".join(f"{name:<16} {text}" for name, text in lines)


def _short(path: Path) -> Path:
    """`path` from the current folder on, if it lies there."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
