"""Whole recipes of augmentation: dtsflow beside torchvision, and DALI where it can.

`vgg` and `randaugment` turn JPEGs into normalised half NHWC batches of 224, `mnist`
turns raw 28 x 28 digits into normalised FP32 batches. dtsflow runs the recipes that it
ships (`po=imagenet_vgg`, `po=imagenet_randaugment`, `po=mnist_augmented`).
"""

import argparse
from typing import Any

from data import mnist, photos, restarts
from harness import Comparison, Side, alternate, pin, report, script_side

OURS = "dtsflow"
MARKED = "dtsflow, restarts"  # a volume packed with --restarts
CHAINS = {"vgg": "imagenet_vgg", "randaugment": "imagenet_randaugment", "mnist": "mnist_augmented"}
WORK = {
    "vgg": "RandomResizedCrop 224, flip, ColorJitter 0.2 and hue 0.1, normalise, "
    "RandomErasing 0.25, to FP16",
    "randaugment": "RandomResizedCrop 224, flip, RandAugment, normalise, to FP16",
    "mnist": "pad 2, crop 28, rotate 20, scale 0.8 to 1.2, normalise, RandomErasing 0.5, to FP32",
}
FORMS = ("tensor", "Pillow")
DALI = "DALI"
WANTED, WANTED_OF_DALI = 3.0, 2.0


def main() -> None:
    """Measure and report."""
    asked = _parse()
    sides = _sides(asked)
    pin(asked.cores)
    measured = alternate(sides, asked.rounds)
    kind = "28 x 28, uint8" if asked.recipe == "mnist" else "photo-like JPEGs"
    facts = {
        "images": f"{asked.images:,} {kind}",
        "work": WORK[asked.recipe],
        "batch": asked.batch,
        "rounds": f"{asked.rounds}, each with 1 warm-up and {asked.passes} timed passes",
        "overrides": " ".join(asked.overrides) or "none",
    }
    report(f"recipe-{asked.recipe}", sides, measured, _pairs(sides), facts)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", choices=sorted(CHAINS))
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--passes", type=int, default=1, help="timed passes a round")
    parser.add_argument("overrides", nargs="*", help="for dtsflow, such as decode=pillow")
    return parser.parse_args()


def _sides(asked: argparse.Namespace) -> list[Side]:
    is_digits = asked.recipe == "mnist"
    folder, volume = mnist(asked.images) if is_digits else photos(asked.images)
    job: dict[str, Any] = {
        "task": asked.recipe,
        "batch": asked.batch,
        "workers": asked.cores,
        "passes": asked.passes,
    }
    ours = {
        "experiment": "image_folder",
        "po": CHAINS[asked.recipe],
        "overrides": asked.overrides,
    }
    theirs = {**job, "data": str(folder), "antialias": True}
    volumes = {OURS: volume} if is_digits else {OURS: volume, MARKED: restarts(folder)}
    found = [
        script_side(name, "dtsflow", {**job, **ours, "data": str(data)})
        for name, data in volumes.items()
    ]
    note = "one scale for both sides" if is_digits else ""
    found += [
        script_side(f"torchvision on {on}", "torchvision", {**theirs, "on": on}, note=note)
        for on in FORMS
    ]
    if asked.recipe == "vgg":
        note = "the colours in one order; no second try for a box that does not fit"
        found.append(script_side(DALI, "dali", theirs, note=note))
    return found


def _pairs(sides: list[Side]) -> list[Comparison]:
    """Our sides beside each peer."""
    own = [side.name for side in sides if side.name in (OURS, MARKED)]
    peers = [side.name for side in sides if side.name not in own]
    return [
        Comparison(f"{ours} / {peer}", ours, peer, WANTED_OF_DALI if peer == DALI else WANTED)
        for ours in own
        for peer in peers
    ]


if __name__ == "__main__":
    main()
