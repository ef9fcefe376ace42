"""CIFAR-like training input: raw 32 x 32 images to normalised half NHWC batches.

Pad 4, crop 32, flip, normalise.
"""

import argparse
from typing import Any

from data import beton, cifar
from harness import Comparison, Side, alternate, pin, report, script_side

OURS = "dtsflow"
WANTED = {"torchvision": 30.0, "FFCV": 4.0}


def main() -> None:
    """Measure and report."""
    asked = _parse()
    sides = _sides(asked)
    pin(asked.cores)
    measured = alternate(sides, asked.rounds)
    work = "pad 4, crop 32, flip, normalise"
    facts = {
        "images": f"{asked.images:,} of 32 x 32 x 3, uint8",
        "work": f"{work}, to FP16",
        "batch": asked.batch,
        "rounds": f"{asked.rounds}, each with 1 warm-up and {asked.passes} timed passes",
        "wanted": "dtsflow ≥ 400,000 images/s",
    }
    pairs = [Comparison(f"{OURS} / {peer}", OURS, peer, wanted) for peer, wanted in WANTED.items()]
    report("cifar", sides, measured, pairs, facts)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=51_200)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passes", type=int, default=3, help="timed passes a round")
    parser.add_argument("overrides", nargs="*", help="for dtsflow, such as reader.shuffle=none")
    return parser.parse_args()


def _operations() -> list[dict[str, Any]]:
    return [
        {"_target_": "dtsflow.po.RandomCrop", "size": 32, "padding": 4},
        {"_target_": "dtsflow.po.RandomHorizontalFlip"},
        {"_target_": "dtsflow.po.Normalize", "preset": "cifar", "dtype": "FP16"},
    ]


def _sides(asked: argparse.Namespace) -> list[Side]:
    folder, volume = cifar(asked.images)
    job = {
        "task": "cifar",
        "crop": True,
        "batch": asked.batch,
        "workers": asked.cores,
        "passes": asked.passes,
    }
    ours = {
        "experiment": "image_folder",
        "data": str(volume),
        "operations": _operations(),
        # The experiment validates too, which no pass here asks for.
        "overrides": [f"phases.val.volume.path={volume}", *asked.overrides],
    }
    return [
        script_side(OURS, "dtsflow", {**job, **ours}),
        script_side("torchvision", "torchvision", {**job, "data": str(folder)}),
        script_side("FFCV", "ffcv", {**job, "data": str(beton(folder))}),
    ]


if __name__ == "__main__":
    main()
