"""`dtsflow inspect`: what a volume holds."""

import argparse
import json
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from dtsflow.cli.terminal import printable
from dtsflow.memory.drawing import human_bytes
from dtsflow.volume import open as open_volumes
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.file import VolumeFile

Histogram = list[tuple[int, int, int]]  # from, below, how many

_BAR = 40  # characters of the longest bar
_NAMED = 8  # class names that the text shows


def main(words: list[str]) -> int:
    """Show the volumes that `words` name."""
    parser = argparse.ArgumentParser(
        prog="dtsflow inspect",
        description="Show what volumes hold: header, blocks, classes, sizes.",
    )
    parser.add_argument("path", metavar="PATH", help="a .dts file, a folder of them, or a glob")
    parser.add_argument("--json", action="store_true", help="print JSON, with every header field")
    asked = parser.parse_args(words)
    facts = gather(asked.path)
    print(json.dumps(facts, indent=2) if asked.json else text(facts))
    return 0


def gather(path: str) -> dict[str, Any]:
    """Return the facts about the volumes at `path`, as plain JSON values."""
    with open_volumes(path) as volumes:
        described = volumes.volumes
        labels = np.bincount(volumes.labels, minlength=described.num_classes)
        counts = described.counts
        in_blocks = described.layout == "blocks"
        return {
            "files": [str(file.path) for file in described.files],
            "bytes": sum(file.size for file in described.files),
            "kind": described.files[0].header.dataset_type.value,
            "split": "train" if described.is_training else "val or test",
            "level": described.level if in_blocks else None,
            "image": str(described.image),
            "samples": described.num_samples,
            "blocks": len(counts) if in_blocks else None,
            "samples_per_block": _spread(counts) if in_blocks else None,
            "block_samples": counts.tolist() if in_blocks else None,
            "sample_bytes": _spread(volumes.sizes),
            "sample_bytes_histogram": histogram(volumes.sizes),
            "short_side_histogram": histogram(_short_sides(described)),
            "classes": described.num_classes,
            "class_names": list(described.class_names),
            "samples_per_class": labels.tolist(),
            "index": _index(described.files[0]),
            "headers": [_header(file) for file in described.files],
        }


def histogram(values: npt.NDArray[Any]) -> Histogram:
    """Return how many values lie from each power of two to the next.

    Empty without values.
    """
    if not len(values):
        return []
    exponents = np.floor(np.log2(np.maximum(values, 1))).astype(np.int64)
    lowest = int(exponents.min())
    counts = np.bincount(exponents - lowest)
    return [(1 << e, 2 << e, count) for e, count in enumerate(counts.tolist(), lowest)]


def _short_sides(described: VolumeSet) -> npt.NDArray[np.int64]:
    """Return the short side of each image whose size an index knows."""
    sides = [
        np.minimum(file.extension.widths, file.extension.heights)
        for file in described.files
        if file.extension is not None
        and file.extension.widths is not None
        and file.extension.heights is not None
    ]
    known = np.concatenate(sides).astype(np.int64) if sides else np.zeros(0, np.int64)
    return known[known > 0]


def _index(file: VolumeFile) -> dict[str, Any] | None:
    if file.extension is None:
        return None
    about = asdict(file.extension.about)
    del about["class_names"], about["header"]
    return about


def _header(file: VolumeFile) -> dict[str, Any]:
    return {**asdict(file.header), "dataset_type": file.header.dataset_type.value}


def _spread(values: Any) -> dict[str, float]:
    return {
        "min": int(values.min()),
        "mean": round(float(values.mean()), 1),
        "max": int(values.max()),
    }


def text(facts: dict[str, Any]) -> str:
    """Return the facts as lines for a person."""
    lines = [
        ("files", ", ".join(facts["files"])),
        ("size", human_bytes(facts["bytes"])),
        ("data set", f"{facts['kind']}, {facts['split']}"),
        ("image", facts["image"]),
        ("samples", f"{facts['samples']:,}"),
        ("sample bytes", _spread_text(facts["sample_bytes"])),
    ]
    if facts["blocks"] is not None:
        has_markers = facts["index"] is not None and facts["index"]["options"].get("restarts")
        with_markers = ", with restart markers" if has_markers else ""
        lines.append(("level", f"{facts['level']}{with_markers}"))
        lines.append(("blocks", f"{facts['blocks']:,}"))
        lines.append(("per block", f"{_spread_text(facts['samples_per_block'])} samples"))
    per_class = np.array(facts["samples_per_class"])
    lines.append(("classes", f"{facts['classes']:,}, {_spread_text(_spread(per_class))} samples"))
    names = facts["class_names"]
    more = ", …" if len(names) > _NAMED else ""
    lines.append(("", ", ".join(map(printable, names[:_NAMED])) + more))
    lines += _index_lines(facts["index"])
    shown = "\n".join(f"{name:<13} {value}" for name, value in lines)
    for title, unit in (("sample bytes", "sample_bytes"), ("short side", "short_side")):
        if len(bars := facts[f"{unit}_histogram"]) > 1:
            shown += f"\n\n{title}\n{_drawn(bars)}"
    return shown


def _index_lines(index: dict[str, Any] | None) -> list[tuple[str, str]]:
    if index is None:
        return [("index", "none: the whole file has one checksum, its blocks have none")]
    lines = [("index", f"by {index['packer']}: a checksum for every block")]
    if index["statistics_images"]:
        mean, std = (" ".join(f"{value:.4f}" for value in index[name]) for name in ("mean", "std"))
        lines.append(("mean, std", f"{mean}, {std} (of {index['statistics_images']:,} images)"))
    return lines


def _drawn(bars: Histogram) -> str:
    longest = max(count for _, _, count in bars)
    return "\n".join(
        f"{start:>12,} to {end - 1:<12,} {'█' * round(_BAR * count / longest):<{_BAR}} {count:,}"
        for start, end, count in bars
    )


def _spread_text(spread: dict[str, float]) -> str:
    return f"{spread['min']:,} to {spread['max']:,}, mean {spread['mean']:,}"
