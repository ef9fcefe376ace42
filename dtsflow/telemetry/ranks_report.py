"""The report of a run of several ranks, from those of each."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from dtsflow.consumer.digest import add_sequences

_SUMS = ("images", "images_per_s", "bad_samples")
_ROW = ("images", "steps", "images_per_s", "first_batch_s", "peak_rss_bytes", "bad_samples")


def ranks_report(reports: Sequence[dict[str, Any]], *, level: bool = True) -> dict[str, Any]:
    """Rank 0's report with the sums over all ranks, and a row for each, as `ranks`.

    Images, images a second and bad samples are those of all ranks; `spread` has the
    least, middle and most images a second and seconds waited of a rank. Of digests,
    `sequence` adds up; `samples`, which does not, is null. Ranks that are not `level`
    were stopped at different batches: what some had more of comes again when the run
    goes on, so there is no digest.
    """
    whole = dict(reports[0])
    whole |= {name: sum(one[name] for one in reports) for name in _SUMS}
    whole["phases"] = {
        phase: {**of_phase, "images": sum(one["phases"][phase]["images"] for one in reports)}
        for phase, of_phase in whole["phases"].items()
    }
    digests = [one["digest"] for one in reports if one["digest"] is not None]
    whole["digest"] = _digest(digests) if level and len(digests) == len(reports) else None
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


def _digest(digests: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[tuple[str, int], list[str]] = {}
    for digest in digests:
        for part in digest["epochs"]:
            found.setdefault((part["phase"], part["epoch"]), []).append(part["sequence"])
    return {
        "samples": None,
        "sequence": add_sequences([digest["sequence"] for digest in digests]),
        "epochs": [
            {"phase": phase, "epoch": epoch, "samples": None, "sequence": add_sequences(sequences)}
            for (phase, epoch), sequences in sorted(found.items())
        ],
    }
