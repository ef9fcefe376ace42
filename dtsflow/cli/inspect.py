"""`dtsflow inspect`: what a volume holds."""

import argparse
import json
from typing import Any

import numpy as np

from dtsflow.memory.drawing import human_bytes
from dtsflow.volume import open as open_volumes


def main(words: list[str]) -> int:
    """Show the volumes that `words` name."""
    parser = argparse.ArgumentParser(prog="dtsflow inspect", description="Show a volume.")
    parser.add_argument("path", metavar="PATH", help="a .dts file, a folder of them, or a glob")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args(words)
    facts = gather(asked.path)
    print(json.dumps(facts, indent=2) if asked.json else text(facts))
    return 0


def gather(path: str) -> dict[str, Any]:
    """The facts about the volumes at `path`, as plain JSON values."""
    with open_volumes(path) as volumes:
        described = volumes.volumes
        labels = np.bincount(volumes.labels, minlength=described.num_classes)
        counts = described.counts
        return {
            "files": [str(file.path) for file in described.files],
            "bytes": sum(file.size for file in described.files),
            "kind": described.files[0].header.dataset_type.value,
            "split": "train" if described.is_training else "val or test",
            "level": described.level if described.layout == "blocks" else None,
            "image": str(described.image),
            "samples": described.num_samples,
            "blocks": len(counts) if described.layout == "blocks" else None,
            "samples_per_block": _spread(counts) if described.layout == "blocks" else None,
            "sample_bytes": _spread(volumes.sizes),
            "classes": described.num_classes,
            "class_names": list(described.class_names),
            "samples_per_class": labels.tolist(),
        }


def _spread(values: Any) -> dict[str, float]:
    return {
        "min": int(values.min()),
        "mean": round(float(values.mean()), 1),
        "max": int(values.max()),
    }


def text(facts: dict[str, Any]) -> str:
    """The facts as lines for a person."""
    lines = [
        ("files", ", ".join(facts["files"])),
        ("size", human_bytes(facts["bytes"])),
        ("data set", f"{facts['kind']}, {facts['split']}"),
        ("image", facts["image"]),
        ("samples", f"{facts['samples']:,}"),
        ("sample bytes", _spread_text(facts["sample_bytes"])),
    ]
    if facts["blocks"] is not None:
        lines.append(("level", str(facts["level"])))
        lines.append(("blocks", f"{facts['blocks']:,}"))
        lines.append(("per block", f"{_spread_text(facts['samples_per_block'])} samples"))
    per_class = np.array(facts["samples_per_class"])
    lines.append(("classes", f"{facts['classes']:,}, {_spread_text(_spread(per_class))} samples"))
    return "\n".join(f"{name:<13} {value}" for name, value in lines)


def _spread_text(spread: dict[str, float]) -> str:
    return f"{spread['min']:,} to {spread['max']:,}, mean {spread['mean']:,}"
