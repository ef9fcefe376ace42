"""`dtsflow synth`: a folder of photo-like JPEGs to try things on."""

import argparse
from pathlib import Path

from dtsflow.cli.terminal import Progress
from dtsflow.volume import write_photos


def main(words: list[str]) -> int:
    """Make the folder that `words` describe."""
    parser = argparse.ArgumentParser(
        prog="dtsflow synth",
        description="Make class folders of photo-like JPEGs with ImageNet's sizes.",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="made; must not exist yet")
    parser.add_argument("--images", type=int, default=512, help="images in all (512)")
    parser.add_argument("--classes", type=int, default=10, help="class folders (10)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed, the same files (0)")
    asked = parser.parse_args(words)
    with Progress("photos", asked.images) as progress:
        write_photos(
            asked.folder,
            images=asked.images,
            classes=asked.classes,
            seed=asked.seed,
            progress=lambda done, _total: progress.show(done, images=1),
        )
    print(f"{asked.images:,} images in {asked.classes:,} classes: {asked.folder}")
    return 0
