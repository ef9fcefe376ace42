"""ImageNet-like training input: dtsflow, its bound, and the peers, in one run.

Every side turns the same JPEGs into normalised half NHWC batches of random 224 crops on
the same cores. See README.md for what each side does and cannot do.
"""

import argparse
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data import beton, photos, region_decode, restarts, windows
from harness import Comparison, Side, alternate, pin, report, script_side

OWN = "dtsflow"
MARKED = "dtsflow, restarts"  # a volume packed with --restarts
BOUND = "region decode only"
FFCV = "FFCV"
WANTED = {"torchvision": 3.0, "DALI": 2.0, FFCV: 2.5}
WANTED_OF_BOUND = {True: 0.75, False: 0.85}


@dataclass(frozen=True)
class Asked:
    """The command line."""

    images: int
    batch: int
    cores: int
    rounds: int
    passes: int
    overrides: tuple[str, ...]


def main() -> None:
    """Measure and report."""
    asked = _parse()
    folder, volume = photos(asked.images)
    sides = _sides(asked, folder, volume)
    pin(asked.cores)
    measured = alternate(sides, asked.rounds)
    facts = {
        "images": f"{asked.images:,} photo-like JPEGs, {_megabytes(folder):.0f} MB",
        "batch": asked.batch,
        "rounds": f"{asked.rounds}, each with 1 warm-up and {asked.passes} timed passes",
        "overrides": " ".join(asked.overrides) or "none",
    }
    report("imagenet", sides, measured, _pairs(), facts)


def _parse() -> Asked:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passes", type=int, default=3, help="timed passes a round")
    parser.add_argument("overrides", nargs="*", help="for dtsflow, such as decode=pillow")
    words = parser.parse_args()
    return Asked(**{**vars(words), "overrides": tuple(words.overrides)})


def named(name: str, *, antialias: bool) -> str:
    """A side's name with its setting."""
    return f"{name}, antialias {str(antialias).lower()}"


def operations(*, antialias: bool) -> list[dict[str, Any]]:
    """The chain of dtsflow."""
    return [
        {"_target_": "dtsflow.po.RandomResizedCrop", "size": 224, "antialias": antialias},
        {"_target_": "dtsflow.po.RandomHorizontalFlip"},
        {"_target_": "dtsflow.po.Normalize", "preset": "imagenet", "dtype": "FP16"},
    ]


def _sides(asked: Asked, folder: Path, volume: Path) -> list[Side]:
    job = {
        "task": "imagenet",
        "batch": asked.batch,
        "workers": asked.cores,
        "passes": asked.passes,
    }
    own, bound, peers = [], _bound(asked, volume), []
    volumes = {OWN: volume, MARKED: restarts(folder)}
    for antialias in (True, False):
        ours = {
            "experiment": "image_folder",
            "operations": operations(antialias=antialias),
            "overrides": asked.overrides,
        }
        theirs = {**job, "data": str(folder), "antialias": antialias}
        own += [
            script_side(
                named(name, antialias=antialias), "dtsflow", {**job, **ours, "data": str(data)}
            )
            for name, data in volumes.items()
        ]
        peers += [
            script_side(named("torchvision", antialias=antialias), "torchvision", theirs),
            script_side(named("DALI", antialias=antialias), "dali", theirs),
        ]
    own_file = {**job, "data": str(beton(folder))}
    note = "own file, JPEG quality 95; fast DCT; resizes by area, has no other way"
    peers.append(script_side(FFCV, "ffcv", own_file, note=note))
    # The bound stands between the two that are held against it most closely.
    return [own[0], bound, *own[1:], *peers]


def _bound(asked: Asked, volume: Path) -> Side:
    config = {
        "experiment": "image_folder",
        "volume": {"path": str(volume)},
        "po": {"operations": operations(antialias=True)},
    }
    file = windows(config, asked.passes + 1)
    command = (str(region_decode()), str(file), str(asked.cores))
    return Side(BOUND, command, note="no resize, no output: not a loader but a bound")


def _pairs() -> list[Comparison]:
    pairs = []
    for antialias, name in itertools.product((True, False), (OWN, MARKED)):
        ours = named(name, antialias=antialias)
        pairs.append(Comparison(f"{ours} / {BOUND}", ours, BOUND, WANTED_OF_BOUND[antialias]))
        for peer, wanted in WANTED.items():
            theirs = peer if peer == FFCV else named(peer, antialias=antialias)
            pairs.append(Comparison(f"{ours} / {peer}", ours, theirs, wanted))
    return pairs


def _megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*.JPEG")) / 1e6


if __name__ == "__main__":
    main()
